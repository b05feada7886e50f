"""Files that cannot be used, and the pools that they take out of a run: their own, no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from kvaudit.core.report import InputFile
from kvaudit.errors import InputError
from kvaudit.formats.schema import EXPECTATIONS, FILE_SUFFIX, FileKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """A file that is left out.

    Fields:
        path: the file, as the user wrote it.
        kind: its kind, by its name where it could not be opened; None when not known.
        owners: snapshots that name it in their metadata.
        error: why.
    """

    path: str
    kind: FileKind | None
    owners: frozenset[str] = frozenset()
    error: InputError

    def input_file(self) -> InputFile:
        """What the report says of it."""
        return InputFile(
            path=self.path,
            kind="unknown" if self.kind is None else str(self.kind),
            notes=(self.error.left_out_note(self.path),),
        )


def kind_by_name(path: str) -> FileKind | None:
    """The kind that a conventional name tells; None for another name."""
    kinds = (kind for kind in FileKind if path.endswith(f".{kind}{FILE_SUFFIX}"))
    return next(kinds, None)


def lost_pools(left_out: Sequence[LeftOut], snapshot_paths: Iterable[str]) -> list[LeftOut]:
    """The snapshots that cannot be judged, because one of their expectations is left out.

    Judged by the rest they would show differences that are none.

    Raises:
        InputError: nothing tells which pool an expectation belongs to, so it may be any.
    """
    lost: dict[str, LeftOut] = {}
    paths = list(snapshot_paths)
    gone = [file.path for file in left_out if file.kind not in EXPECTATIONS]
    for file in left_out:
        if file.path in gone:
            continue
        owned = [path for path in (*paths, *gone) if _owns(path, file)]
        if not owned:
            raise file.error
        for path in owned:
            lost[path] = LeftOut(path=path, kind=FileKind.SNAPSHOT, error=file.error)
    return [file for path, file in lost.items() if path not in gone]


def _owns(snapshot_path: str, expectation: LeftOut) -> bool:
    """Whether a snapshot names the file, or has its name but for the kind, in the same folder."""
    if expectation.owners:
        return snapshot_path in expectation.owners
    return _stem(snapshot_path) == _stem(expectation.path)


def _stem(path: str) -> tuple[str, str]:
    folder, name = str(PurePath(path).parent), PurePath(path).name
    kind = kind_by_name(path)
    return folder, name.removesuffix(FILE_SUFFIX).removesuffix("" if kind is None else f".{kind}")
