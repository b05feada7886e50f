"""Chain recovery: which record follows which, when nothing says what a pool should hold.

Records become entries for the same passes that judge expectations. One canary column at a time is
in memory; what is kept of it is 24 bytes a record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import RECORD_POSITION, LaunchTag
from kvaudit.core.backend import Backend
from kvaudit.core.chain_entries import ChainCounters, ChainEntries
from kvaudit.core.entries import Scope
from kvaudit.core.observer import RunObserver
from kvaudit.core.snapshot import AllocState, Snapshot
from kvaudit.runner.canary_columns import column_of, tags_of_columns
from kvaudit.runner.row_space import RowSpace
from kvaudit.runner.self_check import check_chain

LaunchChain = Callable[
    [NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], None
]

_ROWS_PER_LOOK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecoveredChains:
    """What the records of one pool say of each other.

    Fields:
        entries: the records to judge, of each tag that the canary columns allow.
        counters: the chains of each of these tags.
    """

    entries: tuple[ChainEntries, ...]
    counters: tuple[ChainCounters, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainRecovery:
    """The recovery of one pool's chains.

    A record on a free slot may be followed, but is not judged itself: what it was may have been
    overwritten by right.

    Fields:
        snapshot: the pool.
        space: its row space.
        backend: whose kernels are meant; a device's chains are joined by the CPU.
        observer: told of progress.
        scope: which slots are judged; all of them are indexed.
    """

    snapshot: Snapshot
    space: RowSpace
    backend: Backend
    observer: RunObserver
    scope: Scope

    def run(self) -> RecoveredChains:
        """Join every canary column's records.

        Raises:
            FileCorrupt: a chunk's digest differs.
            SelfCheckFailed: the kernel missed a planted orphan, or a link.
        """
        tags = tags_of_columns(self.snapshot)
        if not tags:
            return RecoveredChains(entries=(), counters=())
        launch_chain = self._prepared_launcher()
        judged = judged_rows(self.snapshot, self.scope)
        self.observer.stage("chains", len(tags) * self.snapshot.num_rows)
        recovered = [self._recover(tag, judged, launch_chain=launch_chain) for tag in tags]
        return RecoveredChains(
            entries=tuple(entries for entries, _ in recovered),
            counters=tuple(counters for _, counters in recovered),
        )

    def _prepared_launcher(self) -> LaunchChain:
        """The kernel, compiled and checked."""
        if self.backend.name == "reference":
            from kvaudit.kernels.chain.reference import launch_chain
        else:
            from kvaudit.kernels.chain.numba_cpu import KERNELS, launch_chain
            from kvaudit.kernels.compilation import cache_folder, needs_compilation

            if needs_compilation(KERNELS):
                is_kept = all(cache_folder(kernel) is not None for kernel in KERNELS)
                self.observer.compiling(is_kept=is_kept)
        check_chain(launch_chain)
        return launch_chain

    def _recover(
        self, tag: LaunchTag, judged: NDArray[np.bool_], *, launch_chain: LaunchChain
    ) -> tuple[ChainEntries, ChainCounters]:
        """The entries and the chains of one launch."""
        records = self.space.records(self.snapshot.canary[column_of(tag)])
        rows = self._record_rows(records[self.space.row_shift :])
        indices = rows + self.space.row_shift
        prev_indices, duplicates = np.empty_like(indices), np.zeros(1, dtype=np.int64)
        launch_chain(records.view(np.uint64), indices, prev_indices, duplicates)
        follows = prev_indices > 0
        successors = np.bincount(prev_indices[follows], minlength=self.space.num_indices)
        counters = ChainCounters(
            tag=tag.name,
            records=len(indices),
            heads=int(np.count_nonzero(prev_indices < 0)),
            orphans=int(np.count_nonzero(prev_indices == 0)),
            forks=int(np.count_nonzero(successors > 1)),
            chains=len(indices) - int(np.count_nonzero(successors)),
            duplicates=int(duplicates[0]),
        )
        kept = judged[rows]
        rows, prev_indices, follows = rows[kept], prev_indices[kept], follows[kept]
        positions = records[:, RECORD_POSITION]
        due = np.where(follows, positions[prev_indices] + 1, positions[indices[kept]])
        prev_slots = self._slots_of(np.where(follows, prev_indices - self.space.row_shift, 0))
        self.observer.advance(self.snapshot.num_rows)
        entries = ChainEntries(
            tag=tag,
            slot_indices=self._slots_of(rows),
            prev_slot_indices=np.where(follows, prev_slots, prev_indices),
            expected_positions=due,
        )
        return entries, counters

    def _record_rows(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows outside the reserved slots whose record is not zero; shape [n], int64, ascending."""
        reserved, slots = self.snapshot.reserved_slots, self.snapshot.slots
        found = [np.empty(0, dtype=np.int64)]
        # A part at a time: what is between is then in a core's cache, not in fresh memory.
        for first in range(0, len(values), _ROWS_PER_LOOK):
            part = slice(first, first + _ROWS_PER_LOOK)
            is_record = values[part].any(axis=1) & ~reserved.mask(slots[part])
            found.append(np.flatnonzero(is_record) + first)
        return np.concatenate(found)

    def _slots_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot of each row in kernel numbering, shape [n], int64."""
        slots: NDArray[np.int64] = self.snapshot.slots[rows] + self.space.slot_shift
        return slots


def judged_rows(snapshot: Snapshot, scope: Scope) -> NDArray[np.bool_]:
    """Rows in scope that an allocator's state, where there is one, does not call free or null.

    No record names a request, so none is in the scope of one.

    Returns:
        shape [num_rows], bool.
    """
    judged = scope.admits_slots(snapshot.slots)
    judged &= not scope.request_ids
    if "alloc.state" in snapshot.evidence:
        states = snapshot.evidence["alloc.state"].read()
        judged &= (states != AllocState.FREE) & (states != AllocState.NULL)
    return judged


def stamped_rows(snapshot: Snapshot, scope: Scope) -> NDArray[np.bool_]:
    """Rows to judge that hold a stamp, where no records say which were written.

    Returns:
        shape [num_rows], bool.
    """
    held = np.zeros(snapshot.num_rows, dtype=np.bool_)
    for column in snapshot.stamped.values():
        held |= column.read() != 0
    return held & ~snapshot.reserved_slots.mask(snapshot.slots) & judged_rows(snapshot, scope)
