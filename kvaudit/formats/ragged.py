"""Text and lists of variable length, in every variant that Arrow has, as offsets and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kvaudit.errors import LimitExceeded
from kvaudit.formats.limits import (
    LIMIT_HINT,
    MAX_COLUMN_STRING_BYTES,
    MAX_LIST_VALUES,
    MAX_STRING_BYTES,
)


def raw_offsets(array: pa.Array) -> NDArray[np.int64]:
    """Offsets of a (large_)list or (large_)string array as stored; shape [rows + 1], int64."""
    if len(array) == 0:
        return np.zeros(1, dtype=np.int64)
    types = pa.types
    is_large = types.is_large_list(array.type) or types.is_large_string(array.type)
    offsets = _words(array.buffers()[1], np.int64 if is_large else np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _words(buffer: pa.Buffer, dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """All whole words of a buffer, which may end with a part of one; shape [n], dtype."""
    return np.frombuffer(buffer, dtype=dtype, count=buffer.size // np.dtype(dtype).itemsize)


def lengths(array: pa.Array) -> NDArray[np.int64]:
    """Length of each list or text, 0 where it is null; shape [rows], int64.

    Nothing is expanded to learn it.
    """
    stored = _stored_lengths(array)
    if array.null_count:
        stored[~array.is_valid().to_numpy(zero_copy_only=False)] = 0
    return stored


def _stored_lengths(array: pa.Array) -> NDArray[np.int64]:
    if len(array) == 0:
        return np.zeros(0, dtype=np.int64)
    types = pa.types
    rows = slice(array.offset, array.offset + len(array))
    if types.is_string_view(array.type):
        # A view is 16 bytes and begins with its length.
        return _words(array.buffers()[1], np.int32)[::4][rows].astype(np.int64)
    if types.is_list_view(array.type):
        return _words(array.buffers()[2], np.int32)[rows].astype(np.int64)
    if types.is_large_list_view(array.type):
        return _words(array.buffers()[2], np.int64)[rows].copy()
    return np.diff(raw_offsets(array))


def list_parts(array: pa.Array, *, path: str, column: str) -> tuple[NDArray[np.int64], pa.Array]:
    """Offsets rebased to 0, shape [rows + 1], int64, and the values as one Arrow array.

    Args:
        array: a list array of any variant; a null list is empty.
        path: the file, for messages.
        column: the column, for messages.

    Raises:
        LimitExceeded: views overlap, so that the lists hold more values than the file does.
    """
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths(array), out=offsets[1:])
    total = int(offsets[-1])
    if total > min(len(array.values), MAX_LIST_VALUES):
        raise LimitExceeded(
            f"the lists hold {total} values and the file {len(array.values)}",
            path=path,
            column=column,
            hint="write list views that do not overlap",
        )
    is_plain = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    if is_plain and array.null_count == 0:
        return offsets, array.values.slice(int(raw_offsets(array)[0]), total)
    return offsets, array.flatten()


def list_row(offsets: NDArray[np.int64], value_idx: int) -> int:
    """The row that owns a value of the flattened lists."""
    return int(np.searchsorted(offsets, value_idx, side="right")) - 1


def strings(array: pa.Array, *, path: str, column: str) -> list[str | None]:
    """The text of each row; None where it is null.

    Args:
        array: a string array of any variant, validated; rows of a dictionary share its text.
        path: the file, for messages.
        column: the column, for messages.

    Raises:
        LimitExceeded: a text, or all of them together, are too long.
    """
    if pa.types.is_dictionary(array.type):
        words = strings(array.dictionary, path=path, column=column)
        return [None if index is None else words[index] for index in array.indices.to_pylist()]
    num_bytes = lengths(array)
    longest, total = int(num_bytes.max(initial=0)), int(num_bytes.sum())
    if longest > MAX_STRING_BYTES or total > MAX_COLUMN_STRING_BYTES:
        raise LimitExceeded(
            f"{total} bytes of text, the longest {longest}; at most {MAX_COLUMN_STRING_BYTES} and "
            f"{MAX_STRING_BYTES} are read",
            path=path,
            column=column,
            hint=LIMIT_HINT,
        )
    texts: list[str | None] = array.to_pylist()
    return texts
