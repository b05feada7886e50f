"""The kernels' view of a snapshot: which row of the record array a slot is.

Dense pools, sparse dumps and pools whose slot 0 is real run through the same kernels: slots are
translated to indices, of which 0 is padding and `past_end` is out of range.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_PREDECESSOR, NO_STEP, PADDING_SLOT, RECORD_POSITION, RECORD_WORDS
from kvaudit.core.entries import slot_shift_of, to_engine_slots
from kvaudit.core.kv_column import RowColumn
from kvaudit.core.snapshot import Snapshot
from kvaudit.kernels.array_forms import frozen

_ROWS_PER_LOOK = 1 << 16


class RowSpace:
    """Translates kernel slots to indices of the record array.

    Index 0 is padding: the row of a reserved slot 0 if the snapshot has it, else a dummy in front.

    Fields:
        slot_shift: what kernel slots have on top of the engine's.
        row_shift: the index of row 0.
        num_indices: rows of the record array.
        past_end: the index of every slot outside the pool.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.slot_shift = slot_shift_of(snapshot)
        starts_with_padding = (
            self.slot_shift == 0 and snapshot.num_rows > 0 and snapshot.slots[0] == PADDING_SLOT
        )
        self.row_shift = 0 if starts_with_padding else 1
        self.num_indices = snapshot.num_rows + self.row_shift
        self.past_end = self.num_indices
        self._dense = snapshot.is_dense

    def indices_of(self, kernel_slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The index of each kernel slot, shape [n], int64.

        0 for padding and for a slot of the pool that the snapshot lacks, -1 for a negative slot,
        past_end for one outside the pool. May share memory with its argument.
        """
        if not self._dense:
            return self._looked_up(kernel_slots)
        snapshot = self._snapshot
        first = int(snapshot.slots[0]) + self.slot_shift
        # As uint64, a slot below the first row's is far above the last row's.
        from_first = (kernel_slots - first if first else kernel_slots).view(np.uint64)
        no_row = np.flatnonzero(from_first >= np.uint64(snapshot.num_rows))
        offset = first - self.row_shift
        if offset == 0 and no_row.size == 0:
            return kernel_slots
        indices = kernel_slots - offset
        indices[no_row] = self._looked_up(kernel_slots[no_row])
        return indices

    def _looked_up(self, kernel_slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """`indices_of`, for any slots and rows."""
        snapshot = self._snapshot
        rows = snapshot.rows_of(to_engine_slots(kernel_slots, self.slot_shift))
        indices: NDArray[np.int64] = np.where(rows >= 0, rows + self.row_shift, 0)
        indices[kernel_slots == PADDING_SLOT] = 0
        indices[kernel_slots < 0] = NO_PREDECESSOR
        indices[kernel_slots >= snapshot.num_slots + self.slot_shift] = self.past_end
        return indices

    def by_index(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of rows, shape [num_rows], as a mask that any index, -1 too, may look up.

        Returns:
            shape [num_indices + 1], bool; False for padding and outside the pool.
        """
        mask = np.zeros(self.num_indices + 1, dtype=np.bool_)
        mask[self.row_shift : self.num_indices] = rows
        if self.row_shift == 0:
            mask[0] = False
        return mask

    @cached_property
    def never_stamped(self) -> NDArray[np.bool_] | None:
        """Rows whose stamped_step says that nothing was ever stamped, shape [num_rows], bool.

        None when there is no such row, or no such column.
        """
        column = self._snapshot.evidence.get("stamped_step")
        if column is None:
            return None
        never: NDArray[np.bool_] = column.read() == NO_STEP
        return never if never.any() else None

    @cached_property
    def never_stamped_indices(self) -> NDArray[np.bool_] | None:
        """The indices of those rows, as a mask that any index may look up; None without any."""
        return None if self.never_stamped is None else self.by_index(self.never_stamped)

    def stored_positions(
        self, records: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Stored position of each index, shape [n], int64; -1 where no record was read."""
        read = (indices > 0) & (indices < self.past_end)
        return np.where(read, records[np.where(read, indices, 0), RECORD_POSITION], -1)

    def records(self, column: RowColumn) -> NDArray[np.int64]:
        """The record array the kernels see, shape [num_indices, 4], int64; no copy where possible.

        A file's records and a copy are read-only: a device keeps these from call to call.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        values = column.read()
        if self.row_shift == 0:
            return values
        records = np.empty((self.num_indices, RECORD_WORDS), dtype=np.int64)
        records[0] = 0
        records[1:] = values
        return frozen(records)

    def holds_records(self, records: NDArray[np.int64]) -> bool:
        """Whether any record outside the reserved slots is not zero.

        Record 0 is legal garbage, so it cannot tell a stamped column from an unstamped one.
        """
        reserved = self._snapshot.reserved_slots
        for first in range(self.row_shift, self.num_indices, _ROWS_PER_LOOK):
            part = records[first : first + _ROWS_PER_LOOK]
            first_row = first - self.row_shift
            used = ~reserved.mask(self._snapshot.slots[first_row : first_row + len(part)])
            if part[used].any():
                return True
        return False
