"""The wanted rows of one column through the chunks of a staging, filled by many threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.cuda_staging import Chunk, Staging
from kvaudit.backends.window_walk import WindowTask, wanted_windows
from kvaudit.constants import WORD_BYTES
from kvaudit.core.kv_column import WINDOW_BYTES, KvColumn


@dataclass(slots=True, kw_only=True, eq=False)
class Filling:
    """A chunk that takes in rows of a selection.

    Fields:
        chunk: the chunk.
        first: index of its first row in the selection.
        last: index after its last row.
        num_missing: rows that are not in it yet.
    """

    chunk: Chunk
    first: int
    last: int
    num_missing: int


def staged_row_bytes(num_bytes: int) -> int:
    """What a row of num_bytes folded bytes takes in a chunk: whole words, at least one."""
    return max(1, -(-num_bytes // WORD_BYTES)) * WORD_BYTES


def staged_window_bytes(column: KvColumn, num_bytes: int) -> int:
    """What all rows of a column's largest window take in a chunk."""
    return (WINDOW_BYTES // max(1, column.row_bytes) + 1) * staged_row_bytes(num_bytes)


class ColumnUpload:
    """One fold: `tasks` gives out windows, `fill` proves and copies one, on any thread.

    A chunk holds the largest window but one row, so that each window lies in at most two.

    Args:
        column: the KV bytes.
        rows: rows to fold, shape [n], int64, strictly ascending.
        num_bytes: leading bytes of a row that are folded.
        staging: where the chunks come from.
        send: enqueues the upload and the fold of a full chunk, on any thread.
        on_device: gives a context in which the staging's device is the current one.
    """

    def __init__(
        self,
        column: KvColumn,
        rows: NDArray[np.int64],
        *,
        num_bytes: int,
        staging: Staging,
        send: Callable[[Filling], None],
        on_device: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._column = column
        self._rows = rows
        self._num_bytes = num_bytes
        self._row_bytes = staged_row_bytes(num_bytes)
        self._rows_per_chunk = staging.chunk_bytes // self._row_bytes
        self._staging = staging
        self._send = send
        self._on_device = on_device
        self._stopped = threading.Event()
        self._counting = threading.Lock()
        self._open: dict[int, Filling] = {}

    def tasks(self) -> Iterator[WindowTask]:
        """The windows in order, each once there are chunks for its rows; none once a fill failed."""
        first = 0
        for task in wanted_windows(self._column, self._rows):
            while first < task.last:
                with self._on_device():
                    chunk = self._staging.take(self._stopped)
                if chunk is None:
                    return
                last = min(first + self._rows_per_chunk, len(self._rows))
                self._open[first // self._rows_per_chunk] = Filling(
                    chunk=chunk, first=first, last=last, num_missing=last - first
                )
                first = last
            yield task

    def fill(self, task: WindowTask) -> None:
        """Prove a window, copy its wanted rows as it is proven, and send the chunks that are full.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        try:
            self._copy_window(task)
            for number in self._full_after(task):
                filling = self._open.pop(number)
                try:
                    with self._on_device():
                        self._send(filling)
                finally:
                    self._staging.give_back(filling.chunk)
        except BaseException:
            self._stopped.set()
            self._staging.wake()
            raise

    def close(self) -> None:
        """Give back what a failed fold has not sent; no thread is in `fill` any more."""
        while self._open:
            self._staging.give_back(self._open.popitem()[1].chunk)

    def _copy_window(self, task: WindowTask) -> None:
        wanted = task.window_rows(self._rows)
        data = task.window.data[:, : self._num_bytes]
        is_whole = len(wanted) == len(data)
        for part in task.window.parts(next_is_walked=task.next_is_wanted):
            first, last = part.start, part.stop
            if not is_whole:
                first, last = np.searchsorted(wanted, (first, last)).tolist()
            while first < last:
                number, at = divmod(task.first + first, self._rows_per_chunk)
                end = min(last, first + self._rows_per_chunk - at)
                rows = self._open[number].chunk.rows(self._rows_per_chunk, self._row_bytes)
                copy_rows(data, wanted[first:end], target=rows[at : at + end - first])
                first = end

    def _full_after(self, task: WindowTask) -> list[int]:
        """The chunks whose last missing rows were this window's."""
        full = []
        chunks = range(task.first // self._rows_per_chunk, -(-task.last // self._rows_per_chunk))
        with self._counting:
            for number in chunks:
                filling = self._open[number]
                num_rows = min(task.last, filling.last) - max(task.first, filling.first)
                filling.num_missing -= num_rows
                if not filling.num_missing:
                    full.append(number)
        return full


def copy_rows(
    data: NDArray[np.uint8], rows: NDArray[np.int64], *, target: NDArray[np.uint8]
) -> None:
    """Copy rows to the beginning of the target's, and zero what is left of these.

    Args:
        data: shape [num_rows, num_bytes], uint8; rows may be strided.
        rows: rows of data, shape [n], int64, strictly ascending, at least one.
        target: shape [n, row_bytes], uint8, row_bytes >= num_bytes.
    """
    num_bytes = data.shape[1]
    first, last = int(rows[0]), int(rows[-1]) + 1
    if last - first == len(rows):
        target[:, :num_bytes] = data[first:last]
    elif data.flags.c_contiguous and target.shape[1] == num_bytes:
        # `clip` alone writes straight into `out`; it takes a quarter of an assignment's time.
        np.take(data, rows, axis=0, out=target, mode="clip")
    else:
        target[:, :num_bytes] = data[rows]
    if num_bytes < target.shape[1]:
        target[:, num_bytes:] = 0
