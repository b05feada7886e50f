"""A KV column with other bytes in some rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.kv_column import KvColumn, KvWindow, windows_without_digests


class PatchedKvColumn:
    """A KvColumn over another one, of which it keeps the rows that differ alone.

    Args:
        column: the column as it is.
    """

    def __init__(self, column: KvColumn) -> None:
        self._column = column
        self._rows = np.empty(0, dtype=np.int64)
        self._data = np.empty((0, column.row_bytes), dtype=np.uint8)

    @property
    def name(self) -> str:
        """The column's name."""
        return self._column.name

    @property
    def is_patched(self) -> bool:
        """Whether any row has other bytes."""
        return bool(self._rows.size)

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return self._column.num_rows

    @property
    def row_bytes(self) -> int:
        """Bytes a row holds."""
        return self._column.row_bytes

    @property
    def read_bytes(self) -> int:
        """Leading bytes of a row that a digest covers."""
        return self._column.read_bytes

    @property
    def dtype(self) -> str:
        """Element type as the dumper named it."""
        return self._column.dtype

    @property
    def is_resident(self) -> bool:
        """The rows do not lie one after another."""
        return False

    def windows(self) -> Iterator[KvWindow]:
        """All rows in ascending order, at most WINDOW_BYTES a window."""
        return windows_without_digests(self)

    def read_rows(self, first_row: int, last_row: int) -> NDArray[np.uint8]:
        """The bytes of rows [first_row, last_row), shape [n, row_bytes], uint8."""
        data = self._column.read_rows(first_row, last_row)
        first, last = np.searchsorted(self._rows, (first_row, last_row))
        if first == last:
            return data
        data = data.copy()
        data[self._rows[first:last] - first_row] = self._data[first:last]
        return data

    def rows_at(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of rows, shape [n], int64, in their order; shape [n, row_bytes], a copy."""
        data = np.empty((len(rows), self.row_bytes), dtype=np.uint8)
        ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, len(rows)).tolist()
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            if first < last:
                data[first:last] = self.read_rows(int(rows[first]), int(rows[last - 1]) + 1)
        return data

    def patch(self, rows: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
        """Put bytes, shape [n, row_bytes], into distinct rows, shape [n], int64."""
        kept = ~np.isin(self._rows, rows)
        joined = np.concatenate((self._rows[kept], rows))
        order = np.argsort(joined)
        self._rows = joined[order]
        self._data = np.concatenate((self._data[kept], data))[order]
