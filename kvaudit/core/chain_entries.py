"""Entries that the records themselves ask for: what each follows, when nothing says what should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_EXPECTED_TOKEN, LaunchTag
from kvaudit.core.entries import MAX_BLOCK_ENTRIES, EntryBlock
from kvaudit.core.sequences import SequenceState


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCounters:
    """The chains of one launch tag's records; records of the reserved slots count for nothing.

    Fields:
        tag: the tag's name.
        records: records that are not zero, on free slots too.
        heads: those that begin a chain.
        orphans: those whose predecessor is not among the records.
        forks: those that several others follow.
        chains: those that none follows, each of which ends a chain.
        duplicates: those whose content a lower slot holds too.
    """

    tag: str
    records: int
    heads: int
    orphans: int
    forks: int
    chains: int
    duplicates: int

    def to_dict(self) -> dict[str, Any]:
        """The chains in the JSON report."""
        return {
            "tag": self.tag,
            "records": self.records,
            "heads": self.heads,
            "orphans": self.orphans,
            "forks": self.forks,
            "chains": self.chains,
            "duplicates": self.duplicates,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainEntries:
    """The records of one launch as entries, in slot order: an EntrySource.

    A record must stand one position after the one it follows. No token is expected, and of a head
    or an orphan no position but its own.

    Fields:
        tag: the launch that reads the records.
        slot_indices: slot of each record in kernel numbering, shape [n], int64, ascending.
        prev_slot_indices: the slot that each follows, in kernel numbering, shape [n], int64;
            NO_PREDECESSOR of a head, PREDECESSOR_UNREACHABLE of an orphan.
        expected_positions: shape [n], int64.
    """

    tag: LaunchTag
    slot_indices: NDArray[np.int64]
    prev_slot_indices: NDArray[np.int64]
    expected_positions: NDArray[np.int64]

    @property
    def step(self) -> int | None:
        """The step of the snapshot: there is no other."""
        return None

    @property
    def tags(self) -> tuple[LaunchTag, ...] | None:
        """The one launch."""
        return (self.tag,)

    @property
    def enabled(self) -> bool:
        """Its entries are judged."""
        return True

    @property
    def check_expected_token(self) -> bool:
        """Nothing says which tokens there should be."""
        return False

    @property
    def num_entries(self) -> int:
        """Records judged."""
        return len(self.slot_indices)

    def blocks(self) -> Iterator[EntryBlock]:
        """All entries, in slot order."""
        for first in range(0, self.num_entries, MAX_BLOCK_ENTRIES):
            part = slice(first, first + MAX_BLOCK_ENTRIES)
            slots = self.slot_indices[part]
            yield EntryBlock(
                entry_indices=np.arange(first, first + len(slots), dtype=np.int64),
                slot_indices=slots,
                prev_slot_indices=self.prev_slot_indices[part],
                expected_tokens=np.full(slots.shape, NO_EXPECTED_TOKEN, dtype=np.int64),
                expected_positions=self.expected_positions[part],
            )

    def slot_blocks(self) -> Iterator[NDArray[np.int64]]:
        """The slots of the blocks alone."""
        for first in range(0, self.num_entries, MAX_BLOCK_ENTRIES):
            yield self.slot_indices[first : first + MAX_BLOCK_ENTRIES]

    def request_ids_of(self, entry_indices: NDArray[np.int64]) -> list[str | None]:
        """Nobody: a record does not say whose it is."""
        return [None] * len(entry_indices)

    def states_of(self, entry_indices: NDArray[np.int64]) -> list[SequenceState | None]:
        """Nor what state its sequence is in."""
        return [None] * len(entry_indices)
