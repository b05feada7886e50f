"""The bytes of a file: mapped when it is local, read whole when it is remote."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kvaudit.errors import FileUnreadable, LimitExceeded, NotArrow
from kvaudit.formats.arrow_errors import NOT_ARROW_HINT, translated
from kvaudit.formats.given_path import refuse_empty
from kvaudit.formats.limits import LIMIT_HINT, MAX_FILE_BYTES, MAX_REMOTE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileBytes:
    """A file's bytes, read-only.

    Fields:
        path: as the user wrote it.
        buffer: all bytes, an Arrow buffer.
        mapping: the map under the buffer; None when the bytes are in memory.
    """

    path: str
    buffer: pa.Buffer
    mapping: mmap.mmap | None

    def ensure_whole(self) -> None:
        """Refuse a mapped file that lost its end, where the next read would kill the process.

        Raises:
            FileUnreadable: it is shorter than when it was opened.
        """
        if self.mapping is not None and self.mapping.size() < len(self.mapping):
            raise FileUnreadable(
                f"it shrank from {len(self.mapping)} to {self.mapping.size()} bytes while it was "
                "read",
                path=self.path,
                hint="do not write to a dump while it is audited",
            )


def is_remote(path: str) -> bool:
    """Whether a path is a URI for `pyarrow.fs`, such as `s3://bucket/step-000120/a.arrow`."""
    return "://" in path


def open_file(path: str) -> FileBytes:
    """Open a local path or a URI.

    Raises:
        FileUnreadable: the path is empty, or it is missing, is no regular file, or may not be read.
        LimitExceeded: it is too large.
        NotArrow: it is empty.
    """
    refuse_empty(path)
    return _read_remote(path) if is_remote(path) else _map_local(path)


def _map_local(path: str) -> FileBytes:
    try:
        # Asked before opening, which would wait for ever on a pipe.
        _check_regular(Path(path).stat(), path)
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            _check_regular(status, path)
            _check_size(status.st_size, path, MAX_FILE_BYTES)
            mapping = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
    except OSError as error:
        raise _unreadable(error, path) from error
    except ValueError as error:
        # mmap's word for a file that shrank between the two calls, or for an embedded NUL.
        hint = "wait until it is written, and check its name"
        raise FileUnreadable(str(error), path=path, hint=hint) from error
    return FileBytes(path=path, buffer=pa.py_buffer(mapping), mapping=mapping)


def _check_regular(status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FileUnreadable(
            "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a regular file",
            path=path,
            hint="give a file that kvaudit or an engine wrote",
        )


def _check_size(num_bytes: int, path: str, max_bytes: int) -> None:
    if num_bytes == 0:
        raise NotArrow("the file is empty", path=path, hint=NOT_ARROW_HINT)
    if num_bytes > max_bytes:
        raise LimitExceeded(
            f"{num_bytes} bytes; at most {max_bytes} are read", path=path, hint=LIMIT_HINT
        )


def _unreadable(error: OSError, path: str) -> FileUnreadable:
    return FileUnreadable(
        (error.strerror or str(error)).lower(),
        path=path,
        hint="check the path and that you may read it",
    )


def _read_remote(path: str) -> FileBytes:
    from pyarrow import fs  # the cloud clients take long to load: only for a URI

    try:
        with translated(path):
            filesystem, inside = fs.FileSystem.from_uri(path)
    except (NotArrow, LimitExceeded) as error:
        raise FileUnreadable(error.message, path=path, hint="write scheme://place/file") from error
    try:
        status = filesystem.get_file_info(inside)
        if status.type != fs.FileType.File:
            raise FileUnreadable("there is no such file", path=path, hint="check the address")
        _check_size(status.size, path, MAX_REMOTE_BYTES)
        with filesystem.open_input_file(inside) as file:
            buffer = file.read_buffer()
    except OSError as error:
        hint = "check the address and that you may read it, or copy the file here"
        raise FileUnreadable(str(error).splitlines()[0], path=path, hint=hint) from error
    return FileBytes(path=path, buffer=buffer, mapping=None)
