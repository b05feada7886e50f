"""Which windows of a KV column a fold reads, and which rows it wants of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.kv_column import WINDOW_BYTES, KvColumn, KvWindow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowTask:
    """One window to check, and the part of the wanted rows that lies in it.

    Fields:
        window: the window.
        first: index of its first wanted row in the selection.
        last: index after its last wanted row; equal to first when it is only checked.
    """

    window: KvWindow
    first: int
    last: int

    def window_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The wanted rows, counted from the window's first; shape [last - first], int64."""
        return rows[self.first : self.last] - self.window.first_row


def wanted_windows(column: KvColumn, rows: NDArray[np.int64]) -> Iterator[WindowTask]:
    """The windows that hold a wanted row, in ascending order.

    A digest belongs to the window that holds its chunk's first byte, and a chunk is at most
    WINDOW_BYTES long. So the skipped windows that a wanted window's chunks may begin in come along,
    to be checked only: no byte is folded unchecked.

    Args:
        column: the KV bytes.
        rows: rows to fold, shape [n], int64, strictly ascending.
    """
    skipped: deque[KvWindow] = deque()
    first = 0
    for window in column.windows():
        if first == len(rows):
            return
        end_row = window.first_row + len(window.data)
        last = first + int(np.searchsorted(rows[first:], end_row))
        if first == last:
            skipped.append(window)
            _forget_unreachable(skipped)
            continue
        yield from (WindowTask(window=early, first=first, last=first) for early in skipped)
        skipped.clear()
        yield WindowTask(window=window, first=first, last=last)
        first = last


def _forget_unreachable(skipped: deque[KvWindow]) -> None:
    """Drop windows whose chunks all end before the next window begins."""
    while sum(window.data.nbytes for window in skipped) - skipped[0].data.nbytes >= WINDOW_BYTES:
        skipped.popleft()
