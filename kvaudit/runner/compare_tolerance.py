"""KV that was computed anew is never bit-equal: which of it lies within a relative tolerance."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import decoded, element_type
from kvaudit.core.kv_column import KvColumn
from kvaudit.errors import SchemaMismatch

# Bytes of one dump that are decoded at a time.
_BLOCK_BYTES: Final = 4 << 20


def check_types(column: KvColumn, *, path: str) -> None:
    """Refuse a column whose elements have no known type, or do not fill its rows.

    Raises:
        SchemaMismatch: naming file and column.
    """
    kind = element_type(column.dtype)
    if kind is None or column.read_bytes % kind.itemsize:
        what = f"its dtype is {column.dtype!r}" if column.dtype else "it has no dtype"
        raise SchemaMismatch(
            f"{what}, which no tolerance can be told in",
            path=path or None,
            column=column.name,
            hint="name the elements' type, as bfloat16, in the column's metadata; or --tolerance exact",
        )


def beyond(
    left: tuple[KvColumn, NDArray[np.int64]],
    right: tuple[KvColumn, NDArray[np.int64]],
    *,
    tolerance: float,
) -> NDArray[np.bool_]:
    """Which pairs of rows differ by more than the tolerance.

    An element may lie as far from the other's as tolerance times the largest magnitude that either
    row has. One that is no finite number must be the same number of the same kind in both.

    Args:
        left: a column, and the row of each pair, shape [n], int64.
        right: the other one.
        tolerance: a fraction.

    Returns:
        shape [n], bool.
    """
    (left_column, left_rows), (right_column, right_rows) = left, right
    far = np.empty(len(left_rows), dtype=np.bool_)
    step = max(1, _BLOCK_BYTES // max(1, left_column.row_bytes))
    for first in range(0, len(far), step):
        part = slice(first, first + step)
        far[part] = _beyond(
            _numbers(left_column, left_rows[part]),
            _numbers(right_column, right_rows[part]),
            tolerance=tolerance,
        )
    return far


def _beyond(
    ours: NDArray[np.float32], theirs: NDArray[np.float32], *, tolerance: float
) -> NDArray[np.bool_]:
    if not ours.shape[1]:
        return np.zeros(len(ours), dtype=np.bool_)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    # As float64, a difference of large numbers does not overflow.
    one = np.where(finite, ours, 0).astype(np.float64)
    other = np.where(finite, theirs, 0).astype(np.float64)
    reach = np.maximum(np.abs(one).max(axis=1), np.abs(other).max(axis=1))
    far = np.abs(one - other).max(axis=1) > tolerance * reach
    differs: NDArray[np.bool_] = far | (~finite & ~same).any(axis=1)
    return differs


def _numbers(column: KvColumn, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    return decoded(gathered(column, rows)[:, : column.read_bytes], column.dtype)


def gathered(column: KvColumn, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bytes of rows in any order, shape [n, row_bytes], uint8, a copy."""
    if column.is_resident:
        return column.read_rows(0, column.num_rows)[rows]
    data = np.empty((len(rows), column.row_bytes), dtype=np.uint8)
    for place, row in enumerate(rows.tolist()):
        data[place] = column.read_rows(row, row + 1)
    return data
