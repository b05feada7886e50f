"""The tables of a run, as its trace has them: slots by request row and position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.torch_module import torch
from kvaudit.constants import PADDING_REQUEST, PADDING_SLOT
from kvaudit.core.entries import to_kernel_slots
from kvaudit.core.plan import PlannedWrite
from kvaudit.core.recorded_step import RecordedBatch, RecordedStep, TraceExtent
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.errors import LimitExceeded
from kvaudit.runner.replay.finished import FinishedSequences

# 4 bytes each.
MAX_TABLE_CELLS: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenPositions:
    """Where the entries of a write stand in the tables.

    Fields:
        rows: table row of each, shape [n], int64.
        positions: shape [n], int64.
        slots: shape [n], int64; PADDING_SLOT where it has none.
    """

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]


class ReplayTables:
    """The engine's `req_to_token`, and what it was done with.

    Args:
        extent: how large they become.
        path: the trace, for messages.
        num_slots: slots of the pool.
        highest_slot: what a wild slot of the trace becomes; not in the pool.
        device: where the launches read the table.

    Raises:
        LimitExceeded: the table does not fit.
    """

    def __init__(
        self,
        extent: TraceExtent,
        *,
        path: str,
        num_slots: int,
        highest_slot: int,
        device: torch.device,
    ) -> None:
        shape = (extent.num_request_rows, max(1, extent.max_len))
        if shape[0] * shape[1] > MAX_TABLE_CELLS:
            raise LimitExceeded(
                f"its table of {shape[0]:,} requests and {shape[1]:,} positions does not fit",
                path=path,
                hint="check request_index, prefix_lens and table_positions",
            )
        self.host = np.zeros(shape, dtype=np.int32)
        self.req_to_token = torch.from_numpy(self.host).to(device)
        self.finished = FinishedSequences(num_slots)
        self.row_of: dict[str, int] = {}
        self.seen_step = 0
        self._name_of: dict[int, str] = {}
        self._highest_slot = highest_slot
        self._is_shared = device.type == "cpu"

    def take_over(self, sequences: Sequences, *, shift: int) -> None:
        """The finished sequences of the snapshot that the replay begins with."""
        self.finished.clear()
        for idx, state in enumerate(sequences.states):
            if state in (SequenceState.FINISHED, SequenceState.CACHED):
                start = int(sequences.start_positions[idx])
                kept = max(0, int(sequences.kv_lens[idx]) - start)
                slots = self.as_launched(sequences.slots_of(idx)[:kept], shift=shift)
                self.finished.add(sequences.request_ids[idx], slots, start=start)

    def as_launched(self, slots: NDArray[np.int64], *, shift: int) -> NDArray[np.int64]:
        """A trace's slots, shape [n], int64, as the table holds them; none is PADDING_SLOT."""
        launched = np.where(slots < 0, PADDING_SLOT, to_kernel_slots(slots, shift))
        return np.minimum(launched, self._highest_slot)

    def change(self, recorded: RecordedStep, *, shift: int) -> None:
        """The edits and the ended requests of a row."""
        for row, first, slots in recorded.edits:
            positions = np.arange(first, first + len(slots), dtype=np.int64)
            rows = np.full(len(slots), row, dtype=np.int64)
            self._set(rows, positions, self.as_launched(slots, shift=shift))
        freed = recorded.freed
        for row, length in zip(freed.request_index.tolist(), freed.lens.tolist(), strict=True):
            if row >= len(self.host):
                continue  # Nothing was ever set in it.
            name = self._name_of.pop(row, "")
            self.row_of.pop(name, None)
            self.finished.add(name, self.host[row, :length].astype(np.int64))
            self.host[row] = PADDING_SLOT
            if not self._is_shared:
                self.req_to_token[row].zero_()

    def written_positions(
        self, batch: RecordedBatch, write: PlannedWrite, *, shift: int
    ) -> WrittenPositions:
        """Where the entries of a write will stand."""
        num = min(len(batch.request_index), len(write.plan))
        bounds = np.clip(write.plan.write_offsets[: num + 1], 0, len(write.input_ids))
        lens = np.maximum(np.diff(bounds), 0)
        within = np.arange(int(lens.sum())) - np.repeat(np.cumsum(lens) - lens, lens)
        rows = np.repeat(batch.request_index[:num], lens)
        positions = np.repeat(batch.prefix_lens[:num], lens) + within
        slots = write.out_cache_loc[np.repeat(bounds[:-1], lens) + within]
        kept = (rows != PADDING_REQUEST) & (positions < self.host.shape[1])
        return WrittenPositions(
            rows=rows[kept],
            positions=positions[kept],
            slots=self.as_launched(slots[kept], shift=shift),
        )

    def fill(self, written: WrittenPositions, batch: RecordedBatch, write: PlannedWrite) -> None:
        """A step has written."""
        self._set(written.rows, written.positions, written.slots)
        for row, name in zip(batch.request_index.tolist(), write.request_ids or (), strict=False):
            if self._name_of.get(row) != name and row != PADDING_REQUEST:
                self._name_of[row], self.row_of[name] = name, row

    def held_slots(self, row: int, first: int, count: int) -> NDArray[np.int64]:
        """The slots of `count` positions of a row, shape [count], int64; PADDING_SLOT = none."""
        held = np.zeros(count, dtype=np.int64)
        known = self.host[row, first : first + count]
        held[: len(known)] = known
        return held

    def name_of(self, row: int) -> str:
        """The request of a row; "" where no write has named it."""
        return self._name_of.get(row, "")

    def holders_of(self, slot: int) -> Iterator[tuple[str, int]]:
        """The requests that hold a slot, those that run first, each with its position."""
        for row, position in np.argwhere(self.host == slot).tolist():
            yield self.name_of(row), position
        yield from self.finished.holders_of(slot)

    def _set(
        self,
        rows: NDArray[np.int64],
        positions: NDArray[np.int64],
        slots: NDArray[np.int64],
    ) -> None:
        self.host[rows, positions] = slots
        if not self._is_shared:
            where = torch.from_numpy(np.stack([rows, positions])).to(self.req_to_token.device)
            values = torch.from_numpy(slots.astype(np.int32)).to(self.req_to_token.device)
            self.req_to_token.index_put_((where[0], where[1]), values)
