"""Everything that the expectations claim: which slot holds which token of which sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_PREDECESSOR, PADDING_SLOT
from kvaudit.core.entries import EntryBlock, EntrySource, slot_shift_of, to_engine_slots
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import Snapshot
from kvaudit.core.value_index import ValueIndex

# A slot that the snapshot lacks, or the predecessor of a chain head.
NO_ROW: Final = -1
# A predecessor that the expectation cannot reach, or that the snapshot lacks.
UNREACHABLE_ROW: Final = -2


@dataclass(frozen=True, kw_only=True, eq=False)
class Claims:
    """The entries of all enabled sources but padding, one element an entry, in entry order.

    Fields:
        sources: where they come from.
        source_indices: number of the source, shape [n], int64.
        entry_indices: number of the entry in its source, shape [n], int64.
        slots: slot in the engine's numbering, shape [n], int64.
        rows: row of the snapshot, shape [n], int64; NO_ROW where it has none.
        prev_rows: row of the predecessor, shape [n], int64; NO_ROW at a chain head, UNREACHABLE_ROW
            where there is none to compare with.
        tokens: expected token, shape [n], int64; NO_EXPECTED_TOKEN = not known.
        positions: stored position, the pool's offset included, shape [n], int64.
    """

    sources: Sequence[EntrySource]
    source_indices: NDArray[np.int64]
    entry_indices: NDArray[np.int64]
    slots: NDArray[np.int64]
    rows: NDArray[np.int64]
    prev_rows: NDArray[np.int64]
    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.slots)

    def of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The claims on any of the rows, shape [n], int64, ascending."""
        return self._by_row.where(rows)

    def after_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The claims whose predecessor is any of the rows, shape [n], int64, ascending."""
        return self._by_prev_row.where(rows)

    def request_ids_of(self, claims: NDArray[np.int64]) -> list[str | None]:
        """The request of each of the claims; None where its source does not say."""
        names: list[str | None] = [None] * len(claims)
        for members, source, entries in self._of_sources(claims):
            for member, name in zip(members.tolist(), source.request_ids_of(entries), strict=True):
                names[member] = name
        return names

    def states_of(self, claims: NDArray[np.int64]) -> list[SequenceState | None]:
        """The state of the sequence of each of the claims; None where its source does not say."""
        states: list[SequenceState | None] = [None] * len(claims)
        for members, source, entries in self._of_sources(claims):
            for member, state in zip(members.tolist(), source.states_of(entries), strict=True):
                states[member] = state
        return states

    def _of_sources(
        self, claims: NDArray[np.int64]
    ) -> list[tuple[NDArray[np.int64], EntrySource, NDArray[np.int64]]]:
        """For each source: which of the claims are its own, the source, and their entries."""
        numbers = self.source_indices[claims]
        found = []
        for number in np.unique(numbers).tolist():
            members = np.flatnonzero(numbers == number)
            found.append((members, self.sources[number], self.entry_indices[claims[members]]))
        return found

    @cached_property
    def sequence_numbers(self) -> NDArray[np.int64]:
        """A number for each run of claims that follow one another in a sequence, shape [n], int64."""
        follows = np.zeros(len(self), dtype=np.bool_)
        follows[1:] = (self.prev_rows[1:] == self.rows[:-1]) & (self.rows[:-1] >= 0)
        follows[1:] &= self.positions[1:] == self.positions[:-1] + 1
        follows[1:] &= self.source_indices[1:] == self.source_indices[:-1]
        return np.cumsum(~follows)

    @cached_property
    def begin_midway(self) -> NDArray[np.int64]:
        """Claims on rows of the snapshot whose predecessor is not reachable, shape [n], int64."""
        return np.flatnonzero((self.prev_rows == UNREACHABLE_ROW) & (self.rows >= 0))

    @cached_property
    def _by_row(self) -> ValueIndex:
        return ValueIndex(self.rows)

    @cached_property
    def _by_prev_row(self) -> ValueIndex:
        return ValueIndex(self.prev_rows)


def claims_of(sources: Sequence[EntrySource], snapshot: Snapshot) -> Claims:
    """Collect what the enabled sources claim of a pool."""
    shift = slot_shift_of(snapshot)
    parts: list[tuple[int, EntryBlock]] = []
    for number, source in enumerate(sources):
        if source.enabled:
            for block in source.blocks():
                used = block.slot_indices != PADDING_SLOT
                parts.append((number, block if used.all() else block.only(used)))

    def column(name: str) -> NDArray[np.int64]:
        values = [getattr(block, name) for _, block in parts]
        return np.concatenate(values) if values else np.empty(0, dtype=np.int64)

    lengths = [len(block) for _, block in parts]
    slots = to_engine_slots(column("slot_indices"), shift)
    prev_slots = column("prev_slot_indices")
    prev_rows = snapshot.rows_of(to_engine_slots(prev_slots, shift))
    prev_rows[(prev_rows < 0) | (prev_slots == PADDING_SLOT)] = UNREACHABLE_ROW
    prev_rows[prev_slots <= NO_PREDECESSOR] = NO_ROW
    return Claims(
        sources=sources,
        source_indices=np.repeat(np.array([n for n, _ in parts], dtype=np.int64), lengths),
        entry_indices=column("entry_indices"),
        slots=slots,
        rows=snapshot.rows_of(slots),
        prev_rows=prev_rows,
        tokens=column("expected_tokens"),
        positions=column("expected_positions"),
    )
