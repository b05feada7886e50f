"""From sequences to entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    NO_EXPECTED_TOKEN,
    NO_PREDECESSOR,
    PREDECESSOR_UNREACHABLE,
)
from kvaudit.core.entries import (
    ALL_ENTRIES,
    MAX_BLOCK_ENTRIES,
    EntryBlock,
    Scope,
    to_engine_slots,
    to_kernel_slots,
)
from kvaudit.core.held_slots import JUDGED_STATES, HeldSlots
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import Snapshot


def window_of(snapshot: Snapshot) -> int | None:
    """The window that bounds this pool's own positions.

    A full pool with a map to a window pool may state that pool's window: it keeps all positions.
    """
    return None if "swa_slot" in snapshot.evidence else snapshot.window


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceEntries:
    """The entries of sequences: an EntrySource.

    Sequences in flight have no entries. Positions run from start_position, or from the window's
    edge, to kv_len, as far as there are slots. A first predecessor before them is not reachable:
    its slot may have been given away.

    Fields:
        sequences: the sequences.
        scope: which entries are judged.
        slot_shift: added to slots.
        token_offset: position p holds token p + token_offset.
        position_offset: added to each position.
        window: window in tokens; None for all positions.
    """

    sequences: Sequences
    scope: Scope = ALL_ENTRIES
    slot_shift: int = 0
    token_offset: int = 0
    position_offset: int = 0
    window: int | None = None

    step = None
    tags = None
    enabled = True
    check_expected_token = True

    @cached_property
    def held(self) -> HeldSlots:
        """The elements that become entries, in scope or not, in the same order."""
        return HeldSlots(sequences=self.sequences, states=JUDGED_STATES, window=self.window)

    @property
    def in_flight(self) -> NDArray[np.bool_]:
        """Sequences that are counted and not judged, shape [num_sequences], bool."""
        return ~self.held.counted

    @property
    def num_positions(self) -> NDArray[np.int64]:
        """Positions below kv_len of each sequence, with a slot or not; 0 in flight."""
        reach = self.sequences.kv_lens - self.held.first_positions
        return np.where(self.held.counted, np.maximum(reach, 0), 0)

    @cached_property
    def selected(self) -> NDArray[np.bool_]:
        """Sequences in scope, shape [num_sequences], bool."""
        return self.scope.admits_requests(self.sequences.request_ids)

    @property
    def _counts(self) -> NDArray[np.int64]:
        """Entries of each sequence, in scope or not."""
        return np.diff(self.held.offsets)

    @cached_property
    def num_entries(self) -> int:
        """Entries in scope."""
        if self.scope.slots is None:
            return int(self._counts[self.selected].sum())
        return sum(len(slots) for slots in self.slot_blocks())

    def blocks(self) -> Iterator[EntryBlock]:
        """All entries in scope, in entry order."""
        for run in self._runs():
            block = self._block(run)
            yield block if self.scope.slots is None else block.only(self._mask(block.slot_indices))

    def slot_blocks(self) -> Iterator[NDArray[np.int64]]:
        """The slots of the blocks alone."""
        for run in self._runs():
            slots = run.pick(self.sequences.slots, self.held.slot_bases)
            slots = to_kernel_slots(slots, self.slot_shift)
            yield slots if self.scope.slots is None else slots[self._mask(slots)]

    def request_ids_of(self, entry_indices: NDArray[np.int64]) -> list[str | None]:
        """The request of each entry."""
        return list(self.held.request_ids_of(entry_indices))

    def states_of(self, entry_indices: NDArray[np.int64]) -> list[SequenceState | None]:
        """The state of the sequence of each entry."""
        states = self.sequences.states
        return [states[owner] for owner in self.held.owners_of(entry_indices).tolist()]

    def _mask(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self.scope.admits_slots(to_engine_slots(slots, self.slot_shift))

    def _runs(self) -> Iterator[_Run]:
        counts = np.where(self.selected, self._counts, 0)
        members = np.flatnonzero(counts)
        bounds = np.concatenate(([0], np.cumsum(counts[members])))
        for first in range(0, int(bounds[-1]), MAX_BLOCK_ENTRIES):
            last = min(first + MAX_BLOCK_ENTRIES, int(bounds[-1]))
            low = int(np.searchsorted(bounds, first, side="right")) - 1
            high = int(np.searchsorted(bounds, last, side="left"))
            skipped = np.maximum(first - bounds[low:high], 0)
            lengths = np.minimum(bounds[low + 1 : high + 1], last) - bounds[low:high] - skipped
            yield _Run(members=members[low:high], skipped=skipped, lengths=lengths)

    def _block(self, run: _Run) -> EntryBlock:
        slots = run.pick(self.sequences.slots, self.held.slot_bases)
        slots = to_kernel_slots(slots, self.slot_shift)
        return EntryBlock(
            entry_indices=run.at(self.held.offsets),
            slot_indices=slots,
            prev_slot_indices=self._prev_slots(run, slots),
            expected_tokens=self._tokens(run),
            expected_positions=run.at(self.held.first_positions + self.position_offset),
        )

    def _prev_slots(self, run: _Run, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Predecessors of a run's slots, both in kernel numbering, shape [length], int64."""
        prev_slots = np.empty_like(slots)
        prev_slots[1:] = slots[:-1]
        if run.skipped[0] > 0:
            # The run begins within a sequence: its predecessor ended the run before.
            before = self.held.slot_bases[run.members[0]] + run.skipped[0] - 1
            before_slot = self.sequences.slots[before : before + 1]
            prev_slots[:1] = to_kernel_slots(before_slot, self.slot_shift)
        begins = run.skipped == 0
        at_head = self.held.first_positions[run.members[begins]] == 0
        prev_slots[run.starts[begins]] = np.where(at_head, NO_PREDECESSOR, PREDECESSOR_UNREACHABLE)
        return prev_slots

    def _tokens(self, run: _Run) -> NDArray[np.int64]:
        """Expected tokens of a run; unchecked past either end of the sequence's tokens."""
        tokens = self.sequences.tokens
        if tokens.size == 0:
            return np.full(run.length, NO_EXPECTED_TOKEN, dtype=np.int64)
        starts, ends = self.sequences.token_offsets[:-1], self.sequences.token_offsets[1:]
        bases = starts + self.held.first_positions + self.token_offset
        first = bases[run.members] + run.skipped
        lowest, end = starts[run.members], ends[run.members]
        if (first >= lowest).all() and (first + run.lengths <= end).all():
            return run.pick(tokens, bases)
        at = run.at(bases)
        known = (at >= np.repeat(lowest, run.lengths)) & (at < np.repeat(end, run.lengths))
        return np.where(known, tokens[np.clip(at, 0, tokens.size - 1)], NO_EXPECTED_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    """Consecutive entries of some sequences.

    Fields:
        members: the sequences, shape [m], int64.
        skipped: entries of each that lie before the run, shape [m], int64.
        lengths: entries of each in the run, shape [m], int64.
    """

    members: NDArray[np.int64]
    skipped: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @property
    def length(self) -> int:
        """Entries of the run."""
        return int(self.lengths.sum())

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each sequence starts within the run, shape [m], int64."""
        return np.cumsum(self.lengths) - self.lengths

    def at(self, bases: NDArray[np.int64]) -> NDArray[np.int64]:
        """bases[sequence] + the entry's number within its sequence, shape [length], int64."""
        shifts = self._shifts(bases)
        if _all_equal(shifts):
            return np.arange(shifts[0], shifts[0] + self.length, dtype=np.int64)
        indices = np.repeat(shifts, self.lengths)
        indices += np.arange(self.length, dtype=np.int64)
        return indices

    def pick(self, values: NDArray[np.int64], bases: NDArray[np.int64]) -> NDArray[np.int64]:
        """values[at(bases)], shape [length], int64; a view where those follow one another."""
        shifts = self._shifts(bases)
        if _all_equal(shifts):
            return values[int(shifts[0]) : int(shifts[0]) + self.length]
        return values[self.at(bases)]

    def _shifts(self, bases: NDArray[np.int64]) -> NDArray[np.int64]:
        """at(bases) less the entry's number within the run, for each member; shape [m], int64."""
        return bases[self.members] + self.skipped - self.starts


def _all_equal(values: NDArray[np.int64]) -> bool:
    return bool((values == values[0]).all())
