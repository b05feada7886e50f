"""What rules may look at: one pool's index, and what the run could not cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.canary_health import CanaryHealth
from kvaudit.core.claims import Claims, claims_of
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES, EntrySource, Scope
from kvaudit.core.failed_rows import NONE_FAILED, FailedRows
from kvaudit.core.held_slots import JUDGED_STATES, LIVE_STATES, HeldSlots
from kvaudit.core.identity import IdentityEvidence
from kvaudit.core.plan import PlannedLaunch
from kvaudit.core.pool_content import PoolContent
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import Snapshot

_SLOTS_PER_LOOK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverageGaps:
    """What of one pool was planned and could not be judged.

    Fields:
        absent_slots: planned slots that the snapshot lacks, shape [n], int64, ascending.
        unstamped_columns: canary and stamped columns that are zero throughout.
        never_stamped_slots: planned slots whose stamped_step is -1, shape [n], int64, ascending.
        mid_step: whether the dump was taken in mid-step, so that bytes are not judged.
        mid_step_columns: slots where a column differs, by column; shape [n] each, int64, ascending;
            mid_step alone.
        mid_step_slots: slots with any such difference, exact.
        mid_step_entries: entries whose combined hash differs; mid_step alone.
    """

    absent_slots: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    unstamped_columns: tuple[str, ...] = ()
    never_stamped_slots: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    mid_step: bool = False
    mid_step_columns: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    mid_step_slots: int = 0
    mid_step_entries: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolEvidence:
    """One pool as the rules see it. Slots are in the engine's numbering.

    Fields:
        snapshot: the pool.
        columns: those of its evidence columns that rules ask for, read; shape [num_rows] each, of
            their own dtype.
        sequences: every sequence of the pool; None without any.
        launches: the plan's launches that were judged, disabled ones included.
        window: window that bounds this pool's positions; None for all.
        swa_window: window of the pool that `swa_slot` maps to; None when not known.
        swa_num_slots: slots of that pool; None when not known.
        scope: what the user asked to judge.
        gaps: what could not be judged.
        health: what the counters and the ring of the engine's own run say.
        sources: everything that names entries, whatever the scope.
        failed: the entries that failed, of all launches; very many are cut to the first.
        differing: rows where a KV column differs from its stamp, by column; shape [n] each, int64,
            ascending; very many are cut to the first.
        content: what the slots hold; None where nothing failed.
        identity: what the layer-0 rows say of the tokens; None where they were not judged.
        judges_bytes: whether the run looks at KV bytes, which a dump in mid-step does not allow.
        earlier: what finished sequences had on slots that were given away since, the latest first.
    """

    snapshot: Snapshot
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    sequences: Sequences | None = None
    launches: Sequence[PlannedLaunch] = ()
    window: int | None = None
    swa_window: int | None = None
    swa_num_slots: int | None = None
    scope: Scope = ALL_ENTRIES
    gaps: CoverageGaps = field(default_factory=CoverageGaps)
    health: CanaryHealth = field(default_factory=CanaryHealth)
    sources: Sequence[EntrySource] = ()
    failed: FailedRows = NONE_FAILED
    differing: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    content: PoolContent | None = None
    identity: IdentityEvidence | None = None
    judges_bytes: bool = True
    earlier: Sequence[AuditedPool] = ()

    @cached_property
    def claims(self) -> Claims:
        """What the expectations say of every slot."""
        return claims_of(self.sources, self.snapshot)

    @cached_property
    def live_slots(self) -> HeldSlots | None:
        """What live sequences hold; None without sequences."""
        return self._held(LIVE_STATES)

    @cached_property
    def judged_slots(self) -> HeldSlots | None:
        """What live and finished sequences hold; None without sequences."""
        return self._held(JUDGED_STATES)

    def _held(self, states: tuple[SequenceState | None, ...]) -> HeldSlots | None:
        if self.sequences is None:
            return None
        return HeldSlots(sequences=self.sequences, states=states, window=self.window)

    def admits_elements(self, held: HeldSlots, elements: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which elements of held slots, shape [n], int64, are in scope; shape [n], bool."""
        requests = self.scope.admits_requests(held.sequences.request_ids)
        return requests[held.owners_of(elements)] & self.scope.admits_slots(held.slots[elements])

    def names_slot(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which slots can hold a sequence: in the pool and not reserved; shape [n], bool."""
        named = np.empty(slots.shape, dtype=np.bool_)
        # A part at a time: what is between is then in a core's cache, not in fresh memory.
        for first in range(0, len(slots), _SLOTS_PER_LOOK):
            part = slice(first, first + _SLOTS_PER_LOOK)
            inside = (slots[part] >= 0) & (slots[part] < self.snapshot.num_slots)
            named[part] = inside & ~self.snapshot.reserved_slots.mask(slots[part])
        return named
