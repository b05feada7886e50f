"""The matched slots of one leg of a comparison, and what could not be matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.comparison_choices import MatchBy
from kvaudit.core.comparison_evidence import SlotPairs
from kvaudit.runner.compare.join import RequestJoin
from kvaudit.runner.compare.side import Contents


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matching:
    """The matched slots of one leg, and what could not be matched.

    Fields:
        pairs: the matched slots.
        ambiguous: pairs whose content several left slots have, shape [n], bool.
        by: how many slots of the right dump were matched, by how.
        due: rows of the left dump that must have a counterpart, shape [num_rows], bool.
        found: rows of the left dump that have one, shape [num_rows], bool.
        wanted: rows of the right dump that have a counterpart to look for, shape [num_rows], bool.
        requests: the requests that both name; None where a dump has no sequences.
        contents: the names of the contents, left and right; None where they were not joined.
        named_by: the record column that names the contents of both dumps; "" where none does.
        by_content: pairs whose contents have one name, shape [n], bool.
        unchecked: what could not be matched, one sentence each.
        lacks: why nothing could be matched; "" where something was.
    """

    pairs: SlotPairs
    ambiguous: NDArray[np.bool_]
    by: Mapping[str, int]
    due: NDArray[np.bool_]
    found: NDArray[np.bool_]
    wanted: NDArray[np.bool_]
    requests: RequestJoin | None = None
    contents: tuple[Contents, Contents] | None = None
    named_by: str = ""
    by_content: NDArray[np.bool_]
    unchecked: Sequence[str] = ()
    lacks: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class PairParts:
    """Pairs while they are gathered; the later ones of a right row stand in for the earlier ones."""

    left_rows: list[NDArray[np.int64]] = field(default_factory=list)
    right_rows: list[NDArray[np.int64]] = field(default_factory=list)
    ambiguous: list[NDArray[np.bool_]] = field(default_factory=list)
    by: list[MatchBy] = field(default_factory=list)

    def add(
        self,
        by: MatchBy,
        left_rows: NDArray[np.int64],
        right_rows: NDArray[np.int64],
        *,
        ambiguous: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take pairs of one way to match; of no content that the left dump has several times."""
        if ambiguous is None:
            ambiguous = np.zeros(len(left_rows), dtype=np.bool_)
        self.left_rows.append(left_rows)
        self.right_rows.append(right_rows)
        self.ambiguous.append(ambiguous)
        self.by.append(by)


def num_distinct(ascending: NDArray[np.int64]) -> int:
    """How many different values ascending ones, shape [n], int64, are."""
    return int(np.count_nonzero(np.diff(ascending))) + bool(len(ascending))
