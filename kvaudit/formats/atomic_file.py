"""A file appears under its name complete or not at all; its folder is made before it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from kvaudit.errors import FileUnwritable

_HINT = "give a path in a folder that exists, may be written and has room"


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write, which replaces `path` when the block ends without an exception.

    It has a temporary name in the same folder and mode 0600; it is synced, renamed, and the folder
    is synced. On any exception nothing is left behind and an older file stays as it was.

    Raises:
        FileUnwritable: the system refused, or there is something else than a file.
    """
    target = Path(path)
    try:
        _refuse_other_than_file(target)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise _unwritable(error, path) from error


def _refuse_other_than_file(target: Path) -> None:
    """Refuse a device or a pipe: a rename would put a file in its place. The root has no name."""
    if target.is_dir() or not target.name:
        raise FileUnwritable("is a directory", path=str(target), hint=_HINT)
    if target.exists() and not target.is_file():
        raise FileUnwritable("is not a regular file", path=str(target), hint=_HINT)


@contextmanager
def unwritable_as_input_error(path: str | os.PathLike[str]) -> Iterator[None]:
    """What the system refuses in this block is an error that names the file.

    Raises:
        FileUnwritable: the system refused.
    """
    try:
        yield
    except OSError as error:
        raise _unwritable(error, path) from error


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it, unless it is there.

    Raises:
        FileUnwritable: the system refused, or something else has its name.
    """
    with unwritable_as_input_error(path):
        Path(path).mkdir(parents=True, exist_ok=True)


def _unwritable(error: OSError, path: str | os.PathLike[str]) -> FileUnwritable:
    reason = (error.strerror or str(error)).lower()
    return FileUnwritable(reason, path=str(path), hint=_HINT)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
