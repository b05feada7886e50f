"""A pool as the replay has it: records, tables, and what is known of each slot."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.dataset import AuditedPool
from kvaudit.core.divergence import Divergence, DivergenceKind
from kvaudit.core.plan import PlannedWrite
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.runner.canary_columns import column_of
from kvaudit.runner.replay.canary import ReplayCanary
from kvaudit.runner.replay.slot_history import SlotHistory
from kvaudit.runner.replay.tables import ReplayTables

# Holders of a slot that a difference names.
MAX_HOLDERS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayedPool:
    """A pool in the middle of a replay.

    Fields:
        canary: its records, counters and launches.
        tables: its requests.
        history: when its slots were written and seen.
    """

    canary: ReplayCanary
    tables: ReplayTables
    history: SlotHistory

    def begin(self, start: AuditedPool) -> None:
        """Take over the finished sequences of the snapshot that the replay begins with."""
        for sequences in start.sequences:
            self.tables.take_over(sequences, shift=self.canary.shift)

    def change(self, recorded: RecordedStep) -> None:
        """The edits, ends and copies of a row, tables and records both."""
        self.tables.change(recorded, shift=self.canary.shift)
        copies = recorded.copies
        if not len(copies.src):
            return
        src, dst = (self._inside(slots) for slots in (copies.src, copies.dst))
        pairs = (src >= 0) & (dst >= 0)
        src, dst = src[pairs], dst[pairs]
        self.canary.copy_records(src, dst)
        self.history.copy(src, dst, step=recorded.step)
        self.tables.finished.give_away(dst)

    def store(self, recorded: RecordedStep) -> None:
        """A row is about to be launched: what is known of the slots that it writes.

        A sweep comes after a step's writes, and finished sequences have lost those slots by then.
        """
        if recorded.write is None:
            return
        slots = self._inside(_stored_slots(recorded.write))
        slots = slots[slots >= 0]
        tags = self.canary.tags if recorded.tags is None else recorded.tags
        ran = frozenset(column_of(tag) for tag in tags if tag in self.canary.forward_tags)
        self.history.write(slots, step=recorded.step, buffers=ran)
        self.tables.finished.give_away(slots)

    def fill(self, recorded: RecordedStep) -> None:
        """A row has written: what it wrote is in the tables."""
        batch, write = recorded.batch, recorded.write
        if batch is not None and write is not None:
            written = self.tables.written_positions(batch, write, shift=self.canary.shift)
            self.tables.fill(written, batch, write)

    def divergence(
        self,
        kind: DivergenceKind,
        slot: int,
        *,
        step: int,
        column: str,
        pair: tuple[int, int] | None = None,
    ) -> Divergence:
        """A difference at a slot that was seen at the end of a step.

        Args:
            kind: what differs.
            slot: the slot, in the launches' numbering.
            step: the step.
            column: the column.
            pair: what was recorded, and what the replay has; None where numbers say nothing.
        """
        holders = list(islice(self.tables.holders_of(slot), MAX_HOLDERS))
        return Divergence(
            kind=kind,
            first_step=min(self.history.first_step_of(slot), step),
            last_step=step,
            column=column,
            slot=slot - self.canary.shift,
            position=holders[0][1] if holders else None,
            request_ids=tuple(dict.fromkeys(name for name, _ in holders if name)),
            recorded=None if pair is None else pair[0],
            replayed=None if pair is None else pair[1],
        )

    def _inside(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Slots of the run in the launches' numbering, shape [n], int64; -1 outside the pool."""
        launched = np.where(slots < 0, slots, slots + self.canary.shift)
        return np.where(slots < self.canary.num_slots - self.canary.shift, launched, -1)


def _stored_slots(write: PlannedWrite) -> NDArray[np.int64]:
    """The slots that a write launch stores to, shape [n], int64, with those it skips."""
    num = len(write.plan)
    bounds = np.clip(write.plan.write_offsets[: num + 1], 0, len(write.input_ids))
    if num and bool((np.diff(bounds) >= 0).all()):
        return write.out_cache_loc[bounds[0] : bounds[-1]]
    parts = [write.out_cache_loc[write.entries_of(idx)] for idx in range(num)]
    return np.concatenate([write.out_cache_loc[:0], *parts])
