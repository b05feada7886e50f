"""The slots that sequences hold, one element a (sequence, position) pair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_PREDECESSOR, UNKNOWN_TOKEN
from kvaudit.core.sequences import Sequences, SequenceState

# A finished sequence owns nothing any more, and a copy in flight is not there yet.
LIVE_STATES: Final = (None, SequenceState.RUNNING, SequenceState.WAITING, SequenceState.CACHED)
JUDGED_STATES: Final = (*LIVE_STATES, SequenceState.FINISHED)

# Multipliers of a mix for histories. Their sums must be cheap over whole token arrays: one pass of
# numpy, where the chain hash of the records would be a loop over every position.
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_MIXED: Final = 0xD6E8_FEB8_6659_FD93


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldSlots:
    """What sequences hold below kv_len, in sequence order, then position order.

    Fields:
        sequences: the sequences.
        states: the states that count; the others hold nothing here.
        window: window in tokens; None for all positions.
    """

    sequences: Sequences
    states: tuple[SequenceState | None, ...] = LIVE_STATES
    window: int | None = None

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Which sequences count, shape [num_sequences], bool."""
        states = self.sequences.states
        return np.fromiter((state in self.states for state in states), np.bool_, len(states))

    @cached_property
    def first_positions(self) -> NDArray[np.int64]:
        """First position held by each sequence, shape [num_sequences], int64."""
        first: NDArray[np.int64] = np.maximum(self.sequences.start_positions, 0)
        if self.window is not None:
            first = np.maximum(first, self.sequences.kv_lens - self.window)
        return first

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First element of each sequence and the total, shape [num_sequences + 1], int64."""
        sequences = self.sequences
        ends = sequences.start_positions + np.diff(sequences.slot_offsets)
        counts = np.minimum(ends, sequences.kv_lens) - self.first_positions
        counts = np.where(self.counted, np.maximum(counts, 0), 0)
        return np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def slot_bases(self) -> NDArray[np.int64]:
        """Where the first held slot of each sequence lies in the file, shape [num_sequences], int64."""
        sequences = self.sequences
        return sequences.slot_offsets[:-1] + self.first_positions - sequences.start_positions

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """The slots, shape [n], int64; no copy when every slot of the file is held."""
        sequences = self.sequences
        if np.array_equal(self.offsets, sequences.slot_offsets):
            return sequences.slots
        shifts = np.repeat(self.slot_bases - self.offsets[:-1], np.diff(self.offsets))
        return sequences.slots[np.arange(len(shifts), dtype=np.int64) + shifts]

    def owners_of(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sequence of each element, shape [n], int64."""
        return np.searchsorted(self.offsets, elements, side="right").astype(np.int64) - 1

    def positions_of(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        """The position of each element, shape [n], int64."""
        owners = self.owners_of(elements)
        return elements - self.offsets[owners] + self.first_positions[owners]

    def prev_slots_of(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot before each element in its sequence, NO_PREDECESSOR at the first; [n], int64."""
        first = self.offsets[self.owners_of(elements)] == elements
        return np.where(first, NO_PREDECESSOR, self.slots[np.maximum(elements - 1, 0)])

    def request_ids_of(self, elements: NDArray[np.int64]) -> list[str]:
        """The request of each element."""
        names = self.sequences.request_ids
        return [names[owner] for owner in self.owners_of(elements).tolist()]

    def owner_names_of(self, elements: NDArray[np.int64]) -> list[str]:
        """The different requests that hold any of the elements, in input order."""
        owns = np.zeros(self.sequences.num_sequences, dtype=np.bool_)
        owns[self.owners_of(elements)] = True
        return [self.sequences.request_ids[owner] for owner in np.flatnonzero(owns).tolist()]

    @cached_property
    def extra_key_numbers(self) -> NDArray[np.int64]:
        """A number for each sequence's extra key, equal where the keys are; [num_sequences]."""
        numbers: dict[str | None, int] = {}
        keys = [numbers.setdefault(key, len(numbers)) for key in self.sequences.extra_keys]
        return np.array(keys, dtype=np.int64)

    def histories_of(
        self, elements: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """A digest of all tokens up to each element's position, and whether all are known.

        What a slot holds depends on the tokens before it, so two sequences may share it exactly
        when these are equal.

        Returns:
            digests, shape [n], uint64, and known, shape [n], bool.
        """
        sequences = self.sequences
        owners, positions = self.owners_of(elements), self.positions_of(elements)
        starts, ends = sequences.token_offsets[owners], sequences.token_offsets[owners + 1]
        stops = np.minimum(starts + positions + 1, ends)
        sums, unknown = self._token_sums
        digests = sums[stops] - sums[starts]
        known = (unknown[stops] == unknown[starts]) & (stops == starts + positions + 1)
        return digests, known

    @cached_property
    def _token_sums(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Running sums over all tokens: of mixed (token, position) words, and of unknown tokens."""
        tokens = self.sequences.tokens
        lengths = np.diff(self.sequences.token_offsets)
        numbers = np.arange(len(tokens)) - np.repeat(self.sequences.token_offsets[:-1], lengths)
        words = tokens.astype(np.uint64) * np.uint64(_GOLDEN)
        words ^= (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_MIXED)
        words ^= words >> np.uint64(32)
        words *= np.uint64(_MIXED)
        words ^= words >> np.uint64(29)
        words *= np.uint64(_GOLDEN)
        words ^= words >> np.uint64(32)
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(words, dtype=np.uint64)))
        unknown = np.concatenate(([0], np.cumsum(tokens == UNKNOWN_TOKEN)))
        return sums, unknown
