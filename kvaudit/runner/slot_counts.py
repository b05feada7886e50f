"""How many slots of a pool were planned, stamped and compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.column_names import canary_name, tail_of
from kvaudit.core.entries import EntrySource
from kvaudit.core.launch_tag import LaunchPhase, half_of, phase_of
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.runner.bytes_pass import BytesResult
from kvaudit.runner.canary_columns import tags_of_columns
from kvaudit.runner.planned_rows import PlannedRows, planned_rows
from kvaudit.runner.records_pass import RecordsResult
from kvaudit.runner.row_space import RowSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """What of one pool's slots the checks read.

    Fields:
        bytes_planned: (unique planned slot, stamp) pairs.
        bytes_checked: those of them that were compared; none in mid-step.
        slots_checked: different slots that a check read.
    """

    bytes_planned: int
    bytes_checked: int
    slots_checked: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotCounter:
    """Counts the slots of one pool, after its passes.

    Fields:
        snapshot: the pool.
        space: its row space.
        sources: what names the entries.
        planned: the slots that they name.
    """

    snapshot: Snapshot
    space: RowSpace
    sources: tuple[EntrySource, ...]
    planned: PlannedRows

    def count(
        self,
        records: RecordsResult,
        bytes_result: BytesResult | None,
        *,
        also_read: NDArray[np.int64],
    ) -> SlotCounts:
        """Count once the passes are done.

        Args:
            records: the records family.
            bytes_result: the bytes family; None when it was left out.
            also_read: rows that the identity family judged, shape [n], int64.
        """
        judged = {LaunchTag[counters.tag] for counters in records.tags}
        read = self._planned_by(judged).stampable.copy()
        read[also_read] = True
        if bytes_result is None:
            return SlotCounts(
                bytes_planned=0, bytes_checked=0, slots_checked=int(np.count_nonzero(read))
            )
        stampable = self.planned.stampable
        present, absent = int(np.count_nonzero(stampable)), len(self.planned.absent_slots)
        pairs_planned = (present + absent) * (len(bytes_result.judged) + len(bytes_result.unjudged))
        pairs_checked = present * len(bytes_result.judged)
        compared = stampable if bytes_result.judged else np.zeros_like(stampable)
        for half in bytes_result.combined:
            if canary_name(tail_of(half)) in records.unstamped_columns:
                continue
            of_half = self._planned_by(
                {
                    tag
                    for tag in LaunchTag
                    if half_of(tag) is half and phase_of(tag) is not LaunchPhase.HEAD
                }
            )
            num_rows = int(np.count_nonzero(of_half.stampable))
            pairs_planned += num_rows + len(of_half.absent_slots)
            pairs_checked += num_rows
            compared = compared | of_half.stampable
        if self.snapshot.at is DumpMoment.MID_STEP:
            pairs_checked = 0
        else:
            read = read | compared
        return SlotCounts(
            bytes_planned=pairs_planned,
            bytes_checked=pairs_checked,
            slots_checked=int(np.count_nonzero(read)),
        )

    def _planned_by(self, tags: set[LaunchTag]) -> PlannedRows:
        """The slots of the sources that any of the launches uses."""
        allowed = tags_of_columns(self.snapshot)
        sources = [
            source
            for source in self.sources
            if not tags.isdisjoint(allowed if source.tags is None else source.tags)
        ]
        if sources and len(sources) == len(self.sources):
            return self.planned
        return planned_rows(sources, self.space)
