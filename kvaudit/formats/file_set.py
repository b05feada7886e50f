"""The files of a run: those opened, and those that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kvaudit.errors import InputError, LimitExceeded
from kvaudit.formats.arrow_file import ArrowFile, open_arrow
from kvaudit.formats.file_bytes import is_remote
from kvaudit.formats.left_out import LeftOut, kind_by_name
from kvaudit.formats.limits import MAX_FILES
from kvaudit.formats.schema import FileKind


class FoundFile:
    """A file of the run, opened.

    Fields:
        file: the open file.
        demanded: given by name rather than found in a folder.
        owners: paths of the snapshots that name it in their metadata; empty = any may use it.
    """

    def __init__(self, file: ArrowFile, *, demanded: bool) -> None:
        self.file = file
        self.demanded = demanded
        self.owners: set[str] = set()


class FileSet:
    """Files in input order, each once however often it is named, and those that cannot be used."""

    def __init__(self) -> None:
        self._by_identity: dict[str, FoundFile] = {}
        self._left_out: dict[str, LeftOut] = {}

    def __iter__(self) -> Iterator[FoundFile]:
        return iter(tuple(self._by_identity.values()))

    def has(self, path: str) -> bool:
        """Whether the file is in the set."""
        return _identity(path) in self._by_identity

    def add(self, file: ArrowFile, *, demanded: bool) -> FoundFile:
        """Put a file in, or find it there."""
        found = self._by_identity.setdefault(
            _identity(file.path), FoundFile(file, demanded=demanded)
        )
        found.demanded |= demanded
        if len(self._by_identity) > MAX_FILES:
            raise LimitExceeded(
                f"more than {MAX_FILES} files", path=file.path, hint="give fewer files"
            )
        return found

    def open(self, path: str, *, demanded: bool) -> FoundFile:
        """Open a file and put it in.

        Raises:
            InputError: it cannot be opened; the same error each time where it is left out.
        """
        if self.is_left_out(path):
            raise self._left_out[_identity(path)].error
        known = self._by_identity.get(_identity(path))
        if known is None:
            return self.add(open_arrow(path), demanded=demanded)
        known.demanded |= demanded
        return known

    @property
    def left_out(self) -> list[LeftOut]:
        """The files that cannot be used, in the order in which that was found."""
        return list(self._left_out.values())

    def leave_out(self, found: FoundFile, error: InputError) -> None:
        """Take a file out that cannot be used."""
        path = found.file.path
        del self._by_identity[_identity(path)]
        self._left_out[_identity(path)] = LeftOut(
            path=path, kind=found.file.kind, owners=frozenset(found.owners), error=error
        )

    def is_left_out(self, path: str) -> bool:
        """Whether the file is one of those that cannot be used."""
        return _identity(path) in self._left_out

    def opened(self, path: str, *, needed: bool = True) -> ArrowFile | None:
        """A file of the run; None where it cannot be opened, and is left out if it is needed."""
        if (known := self._by_identity.get(_identity(path))) is not None:
            return known.file
        try:
            return open_arrow(path)
        except InputError as error:
            if needed:
                unusable = LeftOut(path=path, kind=kind_by_name(path), error=error)
                self._left_out.setdefault(_identity(path), unusable)
            return None

    def snapshots(self) -> list[FoundFile]:
        """The snapshots."""
        return [found for found in self if found.file.kind == FileKind.SNAPSHOT]


def _identity(path: str) -> str:
    return path if is_remote(path) else os.path.realpath(path)
