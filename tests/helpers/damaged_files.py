"""Reads many damaged copies of one file, in a process of its own: a crash must not end the tests.

`python -m tests.helpers.damaged_files FILE STRIDE same|any` flips every bit of each STRIDE-th byte
and cuts the file before it. Each copy must be refused by an InputError, or, with `same`, give what
the undamaged file gives: bytes that nothing reads may change. It prints what was otherwise, and
leaves with 1.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kvaudit.errors import InputError
from kvaudit.formats.columns import FileColumn, FileKvColumn
from kvaudit.formats.reader import Content
from kvaudit.formats.trace_reader import FileTrace, read_file_or_trace

# Beside one flipped bit: values that turn up in lengths and offsets.
_BYTES = (0x00, 0x7F, 0x80, 0xFF)


def _plain(value: Any) -> Any:
    """A value as something that compares with ==."""
    if isinstance(value, FileTrace):
        value = (value.key, value.extent, list(value.steps()))
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return sorted((str(key), _plain(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, FileKvColumn):
        return _kv_column(value)
    if isinstance(value, FileColumn):
        value = ("read", value.read().tolist())
    if hasattr(value, "__dataclass_fields__"):
        names = [name for name in value.__dataclass_fields__ if name != "path"]
        return [(name, _plain(getattr(value, name))) for name in names]
    return value


def _kv_column(column: Any) -> Any:
    content = []
    for window in column.windows():
        window.check()
        content.append(window.data.tobytes())
    return (column.row_bytes, column.read_bytes, column.dtype, b"".join(content))


def everything(content: Content | FileTrace) -> Any:
    """All that a file gives, every digest checked."""
    return _plain(content)


def damaged(content: bytes, stride: int) -> Iterator[tuple[str, bytes]]:
    """Damaged copies, each with its name."""
    for position in range(0, len(content), stride):
        values = {content[position] ^ (1 << bit) for bit in range(8)} | set(_BYTES)
        for value in sorted(values - {content[position]}):
            copy = bytearray(content)
            copy[position] = value
            yield f"byte {position} = {value:#04x}", bytes(copy)
        yield f"cut at {position}", content[:position]


def main(path: str, stride: int, must_be: str) -> int:
    """Read all damaged copies; returns the exit code."""
    content = Path(path).read_bytes()
    wanted = everything(read_file_or_trace(path))
    problems = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "damaged.arrow")
        for name, changed in damaged(content, stride):
            copy.write_bytes(changed)
            # Kept apart from the reading: after a crash the last line names the copy.
            sys.stdout.write(f"{name}\n")
            try:
                found = everything(read_file_or_trace(copy))
            except InputError:
                refused += 1
                continue
            except Exception:  # noqa: BLE001 - any other exception is what this looks for
                problems += 1
                sys.stderr.write(f"{name}\n{traceback.format_exc()}\n")
                continue
            if must_be == "same" and found != wanted:
                problems += 1
                sys.stderr.write(f"{name}: read as something else\n")
    sys.stdout.write(f"refused {refused}\n")
    return 1 if problems or not refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
