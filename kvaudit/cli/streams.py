"""The process's own streams, made safe once at the start. Imports little, so that it cannot fail."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def secure_streams() -> None:
    """Give the process streams that name what went wrong, or that keep nothing where one is closed.

    Streams that somebody else has put in place, such as a test, stay.
    """
    _open_missing()
    for name, kind in (("stdout", _Data), ("stderr", _Messages)):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__"):
            own = kind(
                stream.buffer,
                encoding=stream.encoding,
                errors="backslashreplace",
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, own)


@contextmanager
def write_errors_translated(path: str) -> Iterator[None]:
    """Raises FileUnwritable where the system refused a write of the block; a closed pipe stays one."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        from kvaudit.errors import FileUnwritable

        reason = (error.strerror or str(error)).lower()
        raise FileUnwritable(
            reason, path=path, hint="write to a place that may be written to and has room"
        ) from error


class _Data(io.TextIOWrapper):
    """Stdout: a report that cannot be written is an error of its own, and no fault of kvaudit's."""

    def write(self, text: str, /) -> int:
        with write_errors_translated("stdout"):
            return super().write(text)

    def flush(self) -> None:
        with write_errors_translated("stdout"):
            super().flush()


class _Messages(io.TextIOWrapper):
    """Stderr: where it has no room, the exit code still tells; a closed pipe stays one."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            return len(text)


def _open_missing() -> None:
    """Open the null device for a stream that was closed before the start, as `2>&-` does.

    It takes the free descriptor, which no file of ours must get: libraries write to 1 and 2.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - it stays open
            setattr(sys, name, stream)
