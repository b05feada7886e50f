"""Entries: which slot should hold which token at which position.

They come in blocks, so that a plan of any length needs bounded memory. Their slots are in kernel
numbering (DESIGN.md 4): the engine's, or, where slot 0 is a real slot, the engine's plus a shift,
so that 0 always is padding. Negative slots pass unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PADDING_SLOT, LaunchTag
from kvaudit.core.layout import SlotRanges
from kvaudit.core.plan import PlannedLaunch
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import Snapshot

MAX_BLOCK_ENTRIES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EntryBlock:
    """A run of entries of one source, as many as fit in a core's cache.

    Fields:
        entry_indices: number of each entry in its source, shape [n], int64.
        slot_indices: slot in kernel numbering, shape [n], int64; PADDING_SLOT is skipped.
        prev_slot_indices: predecessor in kernel numbering, shape [n], int64; NO_PREDECESSOR at a
            head, PREDECESSOR_UNREACHABLE where the chain cannot be checked.
        expected_tokens: shape [n], int64; NO_EXPECTED_TOKEN = unchecked.
        expected_positions: stored position, the pool's offset included, shape [n], int64.
    """

    entry_indices: NDArray[np.int64]
    slot_indices: NDArray[np.int64]
    prev_slot_indices: NDArray[np.int64]
    expected_tokens: NDArray[np.int64]
    expected_positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.slot_indices)

    def only(self, keep: NDArray[np.bool_]) -> EntryBlock:
        """The entries that keep, shape [n], bool, admits."""
        return EntryBlock(
            entry_indices=self.entry_indices[keep],
            slot_indices=self.slot_indices[keep],
            prev_slot_indices=self.prev_slot_indices[keep],
            expected_tokens=self.expected_tokens[keep],
            expected_positions=self.expected_positions[keep],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which entries are judged.

    Fields:
        request_ids: these requests alone; empty = all.
        slots: these slots alone, in the engine's numbering; None = all.
    """

    request_ids: frozenset[str] = frozenset()
    slots: SlotRanges | None = None

    def admits_requests(self, request_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Which requests are in scope, shape [n], bool."""
        if not self.request_ids:
            return np.ones(len(request_ids), dtype=np.bool_)
        return np.fromiter(
            (name in self.request_ids for name in request_ids), np.bool_, len(request_ids)
        )

    def admits_slots(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which slots, shape [n], int64, in the engine's numbering, are in scope; [n], bool."""
        return np.ones(slots.shape, np.bool_) if self.slots is None else self.slots.mask(slots)

    def admits_entries(self, launch: PlannedLaunch) -> NDArray[np.bool_] | None:
        """Which active entries of a launch are in scope, shape [n], bool; None = all.

        A launch that names no requests has no entry of theirs.
        """
        if not self.request_ids and self.slots is None:
            return None
        num_active = len(launch.plan)
        admitted = self.admits_slots(launch.plan.verify_slot_indices[:num_active])
        if self.request_ids:
            names = launch.request_ids
            admitted &= False if names is None else self.admits_requests(names[:num_active])
        return admitted


ALL_ENTRIES: Final = Scope()


class EntrySource(Protocol):
    """Where entries come from: sequences, or a plan's launch."""

    @property
    def step(self) -> int | None:
        """The step of the plan; None for sequences."""
        ...

    @property
    def tags(self) -> tuple[LaunchTag, ...] | None:
        """The launches it is for; None = every tag that the canary columns allow."""
        ...

    @property
    def enabled(self) -> bool:
        """Whether its entries are judged; a disabled launch only lowers coverage."""
        ...

    @property
    def check_expected_token(self) -> bool:
        """Whether tokens are judged."""
        ...

    @property
    def num_entries(self) -> int:
        """Entries in scope."""
        ...

    def blocks(self) -> Iterator[EntryBlock]:
        """All entries in scope, in entry order, at most MAX_BLOCK_ENTRIES a block."""
        ...

    def slot_blocks(self) -> Iterator[NDArray[np.int64]]:
        """The slots of the blocks alone, in kernel numbering."""
        ...

    def request_ids_of(self, entry_indices: NDArray[np.int64]) -> list[str | None]:
        """The request of each entry; None where the source does not say."""
        ...

    def states_of(self, entry_indices: NDArray[np.int64]) -> list[SequenceState | None]:
        """The state of the sequence of each entry; None where the source does not say."""
        ...


def slot_shift_of(snapshot: Snapshot) -> int:
    """What is added to the engine's slots so that slot 0 is padding."""
    return 0 if PADDING_SLOT in snapshot.reserved_slots else snapshot.page_size


def to_kernel_slots(slots: NDArray[np.int64], slot_shift: int) -> NDArray[np.int64]:
    """Slots, shape [n], int64, from the engine's numbering to the kernels'.

    The highest slot_shift numbers, which engines write for "no slot", pass unchanged.
    """
    return (
        slots
        if slot_shift == 0
        else np.where(_is_shifted(slots, slot_shift), slots + slot_shift, slots)
    )


def to_engine_slots(slots: NDArray[np.int64], slot_shift: int) -> NDArray[np.int64]:
    """Slots, shape [n], int64, from the kernels' numbering to the engine's."""
    return (
        slots
        if slot_shift == 0
        else np.where(_is_shifted(slots, slot_shift), slots - slot_shift, slots)
    )


def _is_shifted(slots: NDArray[np.int64], slot_shift: int) -> NDArray[np.bool_]:
    highest = np.iinfo(np.int64).max - slot_shift
    return (slots >= 0) & (slots <= highest)
