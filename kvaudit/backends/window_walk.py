"""Which windows of a KV column a fold reads, and which rows it wants of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.kv_column import KvColumn, KvWindow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowTask:
    """A window to check and to fold, and the part of the wanted rows that lies in it.

    Fields:
        window: the window.
        first: index of its first wanted row in the selection.
        last: index after its last wanted row.
        next_is_wanted: whether the row after the window is wanted, and so the next window.
    """

    window: KvWindow
    first: int
    last: int
    next_is_wanted: bool

    def window_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The wanted rows, counted from the window's first; shape [last - first], int64."""
        return rows[self.first : self.last] - self.window.first_row


def wanted_windows(column: KvColumn, rows: NDArray[np.int64]) -> Iterator[WindowTask]:
    """The windows that hold a wanted row, in ascending order; the others are not read.

    Args:
        column: the KV bytes.
        rows: rows to fold, shape [n], int64, strictly ascending.
    """
    first = 0
    for window in column.windows():
        if first == len(rows):
            return
        end_row = window.first_row + len(window.data)
        last = first + int(np.searchsorted(rows[first:], end_row))
        if first < last:
            next_is_wanted = last < len(rows) and int(rows[last]) == end_row
            yield WindowTask(window=window, first=first, last=last, next_is_wanted=next_is_wanted)
        first = last
