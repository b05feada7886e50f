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
    ours, theirs = RowGatherer(left_column), RowGatherer(right_column)
    far = np.empty(len(left_rows), dtype=np.bool_)
    step = max(1, _BLOCK_BYTES // max(1, left_column.row_bytes))
    for first in range(0, len(far), step):
        part = slice(first, first + step)
        far[part] = _beyond(
            ours.numbers(left_rows[part]),
            theirs.numbers(right_rows[part]),
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


class RowGatherer:
    """Rows of a column in any order, whatever pieces it lies in."""

    def __init__(self, column: KvColumn) -> None:
        self._column = column
        if column.is_resident:
            self._pieces = [column.read_rows(0, column.num_rows)]
            self._firsts = np.zeros(1, dtype=np.int64)
        else:
            windows = list(column.windows())
            self._pieces = [window.data for window in windows]
            self._firsts = np.array([window.first_row for window in windows], dtype=np.int64)

    def rows(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of rows, shape [n], int64; [n, row_bytes], uint8, a copy."""
        if len(self._pieces) == 1:
            return self._pieces[0][rows]
        data = np.empty((len(rows), self._column.row_bytes), dtype=np.uint8)
        numbers = np.searchsorted(self._firsts, rows, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(len(self._pieces) + 1))
        for piece, first, last in zip(self._pieces, bounds[:-1], bounds[1:], strict=True):
            places = order[first:last]
            if places.size:
                data[places] = piece[rows[places] - self._firsts[numbers[places[0]]]]
        return data

    def numbers(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The elements of rows that digests cover, shape [n, num_elements], float32."""
        return decoded(self.rows(rows)[:, : self._column.read_bytes], self._column.dtype)
