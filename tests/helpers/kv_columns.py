"""KV columns whose windows and digests a test controls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kvaudit.core.kv_column import KvWindow
from kvaudit.errors import FileCorrupt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowedColumn:
    """A KvColumn with windows of a given number of rows; window `corrupt` fails its check.

    Fields:
        data: the KV bytes, shape [num_rows, row_bytes], uint8.
        read_bytes: leading bytes that are folded.
        window_rows: rows a window.
        corrupt: number of the window whose check fails; None = none.
        checked: first rows of the windows checked, and the threads that did it.
    """

    data: np.ndarray
    read_bytes: int
    window_rows: int
    corrupt: int | None = None
    checked: dict[int, int] = field(default_factory=dict)
    name: str = "kv.k.0"
    dtype: str = ""
    is_resident: bool = True

    @property
    def num_rows(self) -> int:
        return int(self.data.shape[0])

    @property
    def row_bytes(self) -> int:
        return int(self.data.shape[1])

    def windows(self) -> Iterator[KvWindow]:
        for first_row in range(0, self.num_rows, self.window_rows):
            yield KvWindow(
                first_row=first_row,
                data=self.data[first_row : first_row + self.window_rows],
                prove=lambda _next_is_walked, first_row=first_row: self._prove(first_row),
            )

    def _prove(self, first_row: int) -> Iterator[int]:
        self._check(first_row)
        return iter(())

    def _check(self, first_row: int) -> None:
        self.checked[first_row] = threading.get_ident()
        if self.corrupt is not None and first_row == self.corrupt * self.window_rows:
            raise FileCorrupt("the digest differs", column=self.name)

    def read_rows(self, first_row: int, last_row: int) -> np.ndarray:
        return self.data[first_row:last_row]


def random_column(
    *, num_rows: int, row_bytes: int, read_bytes: int, window_rows: int, seed: int = 1
) -> WindowedColumn:
    """Random bytes, read-only as a mapped file's are."""
    data = np.random.default_rng(seed).integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)
    data.flags.writeable = False
    return WindowedColumn(data=data, read_bytes=read_bytes, window_rows=window_rows)
