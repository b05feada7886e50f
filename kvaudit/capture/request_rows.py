"""The table that whoever replays a trace will have, kept while the trace is written."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PADDING_REQUEST, SKIP_WRITE
from kvaudit.core.recorded_step import (
    NO_EDITS,
    NONE_FREED,
    FreedRequests,
    TableEdits,
)

_NO_SLOTS = np.empty(0, dtype=np.int64)


@dataclass(slots=True, eq=False)
class _Row:
    """One request's row.

    Fields:
        request_index: its number.
        slots: slot of each position from 0 on, int64; SKIP_WRITE where there is none. It may be
            longer than kv_len.
        kv_len: positions whose KV counts.
    """

    request_index: int
    slots: NDArray[np.int64] = field(default_factory=lambda: _NO_SLOTS)
    kv_len: int = 0


class RequestRows:
    """Gives requests rows, and collects the edits that bring their rows to the engine's tables.

    A row is given away again only once the changes that free it were taken.
    """

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._free: list[int] = []
        self._num_rows = PADDING_REQUEST + 1
        self._edits: list[tuple[int, int, NDArray[np.int64]]] = []
        self._freed: list[_Row] = []

    def index_of(self, request_id: str) -> int:
        """The request's row; it gets one if it has none."""
        return self._row_of(request_id).request_index

    def has(self, request_id: str) -> bool:
        """Whether the request has a row."""
        return request_id in self._rows

    def set_table(self, request_id: str, slots: NDArray[np.int64], *, kv_len: int) -> None:
        """The engine's table of a request: slots of its last positions below kv_len.

        Args:
            request_id: the request.
            slots: slot of each of the positions [kv_len - len(slots), kv_len), int64.
            kv_len: positions whose KV counts.
        """
        row = self._row_of(request_id)
        row.kv_len = kv_len
        first = kv_len - len(slots)
        wanted = slots if first == 0 else np.concatenate([_no_slots(first), slots])
        row.slots = _longer(row.slots, kv_len)
        differing = np.flatnonzero(row.slots[:kv_len] != wanted)
        if differing.size:
            part = slice(int(differing[0]), int(differing[-1]) + 1)
            self._edits.append((row.request_index, part.start, wanted[part].copy()))
            row.slots[part] = wanted[part]

    def set_written(self, request_id: str, slots: NDArray[np.int64], *, first: int) -> None:
        """What a write of the trace itself sets: positions from `first` on."""
        row = self._row_of(request_id)
        row.kv_len = first + len(slots)
        row.slots = _longer(row.slots, row.kv_len)
        row.slots[first : row.kv_len] = slots

    def cut(self, request_id: str, kv_len: int) -> None:
        """Positions past kv_len count no longer."""
        row = self._rows[request_id]
        row.kv_len = min(row.kv_len, kv_len)

    def kv_len_of(self, request_id: str) -> int:
        """Positions whose KV counts."""
        return self._rows[request_id].kv_len

    def free(self, request_id: str) -> None:
        """The engine is done with a request."""
        row = self._rows.pop(request_id, None)
        if row is not None:
            self._freed.append(row)

    def take_changes(self) -> tuple[TableEdits, FreedRequests]:
        """What has changed since they were taken last."""
        edits, freed = self._edits, self._freed
        self._edits, self._freed = [], []
        for row in freed:
            heapq.heappush(self._free, row.request_index)
        return _table_edits(edits), _freed_requests(freed)

    def _row_of(self, request_id: str) -> _Row:
        row = self._rows.get(request_id)
        if row is None:
            row = self._rows[request_id] = _Row(self._next_index())
        return row

    def _next_index(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._num_rows += 1
        return self._num_rows - 1


def _table_edits(edits: Sequence[tuple[int, int, NDArray[np.int64]]]) -> TableEdits:
    if not edits:
        return NO_EDITS
    return TableEdits(
        request_index=_int64([row for row, _, _ in edits]),
        positions=_int64([first for _, first, _ in edits]),
        lens=_int64([len(slots) for _, _, slots in edits]),
        slots=np.concatenate([slots for _, _, slots in edits]),
    )


def _freed_requests(freed: Sequence[_Row]) -> FreedRequests:
    if not freed:
        return NONE_FREED
    return FreedRequests(
        request_index=_int64([row.request_index for row in freed]),
        lens=_int64([row.kv_len for row in freed]),
    )


def _int64(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def _no_slots(length: int) -> NDArray[np.int64]:
    return np.full(length, SKIP_WRITE, dtype=np.int64)


def _longer(slots: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The slots, at least `length` of them; room grows by halves so that a step copies little."""
    if len(slots) >= length:
        return slots
    room = max(length, len(slots) * 3 // 2)
    return np.concatenate([slots, _no_slots(room - len(slots))])
