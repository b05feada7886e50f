"""From dumped plans to entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.entries import ALL_ENTRIES, MAX_BLOCK_ENTRIES, EntryBlock, Scope, to_kernel_slots
from kvaudit.core.plan import PlannedLaunch
from kvaudit.core.sequences import SequenceState


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchEntries:
    """The entries of one launch of a plan: an EntrySource.

    Fields:
        launch: the launch, with the tags of this run that it is for.
        scope: which entries are judged.
        slot_shift: added to slots.
    """

    launch: PlannedLaunch
    scope: Scope = ALL_ENTRIES
    slot_shift: int = 0

    @property
    def step(self) -> int | None:
        """The step the plan was made for."""
        return self.launch.step

    @property
    def tags(self) -> tuple[LaunchTag, ...] | None:
        """The launches of this run that it is for; None = every tag the columns allow."""
        return self.launch.tags

    @property
    def enabled(self) -> bool:
        """Whether the launch ran its checks."""
        return self.launch.plan.enable

    @property
    def check_expected_token(self) -> bool:
        """Whether tokens are judged."""
        return self.launch.check_verify_expected_token

    @cached_property
    def _keep(self) -> NDArray[np.bool_] | None:
        """Active entries in scope; None = all."""
        return self.scope.admits_entries(self.launch)

    @cached_property
    def num_entries(self) -> int:
        """Active entries in scope."""
        return len(self.launch.plan) if self._keep is None else int(self._keep.sum())

    def blocks(self) -> Iterator[EntryBlock]:
        """All active entries in scope, in entry order."""
        plan = self.launch.plan
        for first in range(0, len(plan), MAX_BLOCK_ENTRIES):
            part = slice(first, min(first + MAX_BLOCK_ENTRIES, len(plan)))
            prev_slots = plan.verify_prev_slot_indices[part]
            block = EntryBlock(
                entry_indices=np.arange(part.start, part.stop, dtype=np.int64),
                slot_indices=to_kernel_slots(plan.verify_slot_indices[part], self.slot_shift),
                prev_slot_indices=to_kernel_slots(prev_slots, self.slot_shift),
                expected_tokens=plan.verify_expected_tokens[part],
                expected_positions=plan.verify_expected_positions[part],
            )
            yield block if self._keep is None else block.only(self._keep[part])

    def slot_blocks(self) -> Iterator[NDArray[np.int64]]:
        """The slots of the blocks alone."""
        for block in self.blocks():
            yield block.slot_indices

    def request_ids_of(self, entry_indices: NDArray[np.int64]) -> list[str | None]:
        """The request of each entry, where the plan says so."""
        names = self.launch.request_ids
        return [None if names is None else names[entry] for entry in entry_indices.tolist()]

    def states_of(self, entry_indices: NDArray[np.int64]) -> list[SequenceState | None]:
        """A plan says nothing of it."""
        return [None] * len(entry_indices)
