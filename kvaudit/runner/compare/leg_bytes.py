"""The KV of one leg: which matched slots are compared, and which differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.compare.columns import LegColumns
from kvaudit.runner.compare.matching import Matching
from kvaudit.runner.compare.pages import PagePairs

# Differing pairs of a column that the rules are shown.
MAX_KEPT: Final = 1 << 16
_NO_PAIRS: Final = np.empty(0, dtype=np.int64)


@dataclass(slots=True, kw_only=True, eq=False)
class LegBytes:
    """The KV of one leg, filled column by column. Pairs are numbered as in the matching.

    Fields:
        left: number of the left dump.
        right: number of the right one.
        matching: the matched slots.
        columns: what is compared.
        pages: which pairs stand for their pages, where digests are of pages; None where of slots.
        differs: pairs with any difference, shape [n], bool.
        differing: differing pairs of each column that has any, shape [k], int64, ascending.
        sources: rows of the left dump that hold what the first differing pairs of the first
            differing column hold on the right, shape [k], int64; -1 where none does.
        zero: which of those pairs have zero content on the right, shape [k], bool.
        restored: pairs that differ from the left dump and are as the one before it has them, shape
            [n], bool: the left dump is wrong there, and its own leg says so.
        undecided: (pair, column)s that differ and could be right: digests within no tolerance, or
            pages of a content that the left dump has several times.
    """

    left: int
    right: int
    matching: Matching
    columns: LegColumns
    pages: PagePairs | None
    differs: NDArray[np.bool_]
    differing: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    sources: NDArray[np.int64] = field(default_factory=lambda: _NO_PAIRS)
    zero: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    restored: NDArray[np.bool_]
    undecided: int = 0

    @property
    def compared(self) -> NDArray[np.int64] | None:
        """The pairs whose digests are compared, shape [m], int64, ascending; None = all."""
        return None if self.pages is None else self.pages.heads

    @property
    def num_due(self) -> int:
        """Slots, or pages, of the right dump whose KV is to be compared."""
        return len(self.matching.pairs) if self.pages is None else self.pages.num_pages

    @property
    def num_compared(self) -> int:
        """Those that are."""
        return len(self.matching.pairs) if self.pages is None else len(self.pages.heads)

    def note(self, name: str, pairs: NDArray[np.int64]) -> None:
        """Take the differing pairs of a column."""
        self.differs[pairs] = True
        kept = pairs if self.matching.ambiguous.any() else pairs[:MAX_KEPT]
        self.differing[name] = kept

    def clear(self, pairs: NDArray[np.int64]) -> None:
        """Take pairs back that are right after all."""
        self.differs[pairs] = False
        kept = {name: found[self.differs[found]] for name, found in self.differing.items()}
        still = np.zeros(0, dtype=np.bool_)
        if self.differing:
            first = next(iter(self.differing.values()))[: len(self.sources)]
            still = self.differs[first]
        self.sources, self.zero = self.sources[still], self.zero[still]
        self.differing = {name: found[:MAX_KEPT] for name, found in kept.items() if len(found)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LegPlaces:
    """Where the compared pairs of a leg stand among the hashed rows of its dumps.

    Fields:
        leg: the leg.
        left: place of each pair's left row, shape [m], int64, or a slice of them.
        right: place of its right row.
    """

    leg: LegBytes
    left: slice | NDArray[np.int64]
    right: slice | NDArray[np.int64]

    @classmethod
    def of(cls, leg: LegBytes, left: NDArray[np.int64], right: NDArray[np.int64]) -> LegPlaces:
        """Look the pairs up, given the place of each row, shape [num_rows], int64."""
        pairs, chosen = leg.matching.pairs, leg.compared
        left_rows = pairs.left_rows if chosen is None else pairs.left_rows[chosen]
        right_rows = pairs.right_rows if chosen is None else pairs.right_rows[chosen]
        return cls(leg=leg, left=_taken(left[left_rows]), right=_taken(right[right_rows]))


def _taken(places: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """What picks places out of an array: a slice, which copies nothing, where they follow each other."""
    if len(places) and (np.diff(places) == 1).all():
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


def places_of(rows: NDArray[np.int64], snapshot: Snapshot) -> NDArray[np.int64]:
    """Where each row of a dump stands among ascending rows, shape [num_rows], int64."""
    places = np.zeros(snapshot.num_rows, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return places
