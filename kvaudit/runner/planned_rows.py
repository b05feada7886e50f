"""Which slots the expectations name: rows of the snapshot, and slots that it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PADDING_SLOT
from kvaudit.core.entries import EntrySource, to_engine_slots
from kvaudit.runner.row_space import RowSpace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedRows:
    """The different slots of the pool that enabled sources name, or that hold a stamp.

    Fields:
        rows: rows of the snapshot, shape [num_rows], bool.
        stampable: those of them that were ever stamped, shape [num_rows], bool.
        absent_slots: slots of the pool that the snapshot lacks, in the engine's numbering,
            shape [n], int64, ascending.
    """

    rows: NDArray[np.bool_]
    stampable: NDArray[np.bool_]
    absent_slots: NDArray[np.int64]

    @property
    def num_slots(self) -> int:
        """Different slots planned, in the snapshot or not."""
        return int(np.count_nonzero(self.rows)) + len(self.absent_slots)

    def with_rows(self, rows: NDArray[np.bool_], space: RowSpace) -> PlannedRows:
        """These and further rows, shape [num_rows], bool."""
        return _of_rows(self.rows | rows, self.absent_slots, space)


def planned_rows(sources: Iterable[EntrySource], space: RowSpace) -> PlannedRows:
    """Look up every slot that the enabled sources name, padding and slots outside the pool apart."""
    named = np.zeros(space.num_indices + 1, dtype=np.bool_)
    absent: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for source in sources:
        if not source.enabled:
            continue
        for slots in source.slot_blocks():
            indices = space.indices_of(slots)
            # -1, a negative slot, falls on the element of past_end: neither is a row.
            named[indices] = True
            if not indices.all():
                lacking = slots[(indices == 0) & (slots != PADDING_SLOT)]
                absent.append(to_engine_slots(lacking, space.slot_shift))
    if space.row_shift == 0:
        named[0] = False
    rows = named[space.row_shift : space.num_indices]
    return _of_rows(rows, np.unique(np.concatenate(absent)), space)


def _of_rows(
    rows: NDArray[np.bool_], absent_slots: NDArray[np.int64], space: RowSpace
) -> PlannedRows:
    never = space.never_stamped
    return PlannedRows(
        rows=rows,
        stampable=rows if never is None else rows & ~never,
        absent_slots=absent_slots,
    )
