"""K of layer 0 against token and position: by a rotation where it is known, else among equals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.identity import Threshold
from kvaudit.core.rope import Rope
from kvaudit.runner.identity.claims import TokenRows
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.pool_table import PoolTable, common_scale
from kvaudit.runner.identity.position_verdicts import PositionVerdicts
from kvaudit.runner.identity.threshold import MIN_PAIRS, floor_of, proved_threshold
from kvaudit.runner.identity.token_election import (
    different_pairs,
    group_numbers,
    same_pairs,
    voters_of,
)
from kvaudit.runner.identity.token_judge import MAX_WRONG, MIN_VERSIONS
from kvaudit.runner.identity.unrotated_k import UnrotatedK
from kvaudit.runner.identity.votes import VoterDistances, Votes, votes_of

# Positions past the longest sequence that a row may be rotated for.
_POSITIONS_BEYOND: Final = 1 << 12
# Wrong rows whose position is looked for, and where no rotation is known, rows that each is
# compared with.
_MAX_SOLVED: Final = 1 << 12
_MAX_OTHERS: Final = 1 << 8
# A position explains a row that is so many thresholds from it: the table's row is rounded too.
_EXPLAINS: Final = 2.0


def judged_positions(
    rows: TokenRows, k: Layer0Rows, *, rope: Rope | None, table: PoolTable | None
) -> PositionVerdicts:
    """Judge the K of rows that hold their token's V, at known positions.

    Args:
        rows: the rows.
        k: the K column.
        rope: how K is rotated; None where that is not known.
        table: the table as this pool holds it; None without one.

    Raises:
        FileCorrupt: a chunk's digest differs.
    """
    verdicts = PositionVerdicts.of(rows)
    judge = _Judge(verdicts=verdicts, k=k)
    if rope is not None and k.num_elements % rope.head_dim == 0:
        if table is not None and table.table.k0 is not None:
            judge.by_table(table, rope)
        judge.by_turning_back(rope)
    judge.among_equals()
    return verdicts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Judge:
    """What judges the rows.

    Fields:
        verdicts: filled in.
        k: the K column.
    """

    verdicts: PositionVerdicts
    k: Layer0Rows

    def by_table(self, table: PoolTable, rope: Rope) -> None:
        """Rows whose token the table knows, each rotated for its position."""
        rows = self.verdicts.rows
        entries = table.entries_for(rows)
        members = np.flatnonzero(entries >= 0)
        if table.num_heads * rope.head_dim != self.k.num_elements or not members.size:
            return
        every = table.trusted(table.table.tokens)
        known = UnrotatedK(
            tokens=table.table.tokens[every >= 0],
            entries=every[every >= 0],
            numbers=table.k_numbers,
            rope=rope,
            num_positions=self._num_positions,
        )
        positions, entries = rows.positions[members], entries[members]
        sample = np.linspace(0, len(members) - 1, min(len(members), _MAX_OTHERS)).astype(np.int64)
        scale = common_scale(
            self.k.numbers(rows.rows[members[sample]]),
            known.rotated(entries[sample], positions[sample]),
            dtype=self.k.dtype,
        )
        known = replace(known, numbers=lambda some: table.k_numbers(some) * np.float32(scale))
        distances = self.k.distances(
            rows.rows[members], lambda part: known.rotated(entries[part], positions[part])
        )
        different, floor = self._different(members), floor_of(self.k.dtype)
        threshold = proved_threshold(distances, different, floor=floor)
        if isinstance(threshold, str):
            # All of the pool may be rotated wrongly: then most rows are at some other position.
            held = self.k.numbers(rows.rows[members[sample]])
            at_best = known.distances_at_best(held, entries[sample])
            threshold = proved_threshold(at_best, different, floor=floor)
        if isinstance(threshold, Threshold):
            self._take(members, distances, threshold, known=known)

    def by_turning_back(self, rope: Rope) -> None:
        """Rows of one token, each turned back for its position, vote for the K of it."""
        k, shape = self.k, (-1, self.k.num_elements // rope.head_dim, rope.head_dim)
        order = self._open_rows("histories", "tokens", "keys")
        voters = self.verdicts.rows.only(order)

        def numbers(some: NDArray[np.int64]) -> NDArray[np.float32]:
            held = k.numbers(voters.rows[some]).reshape(shape)
            return rope.unrotated(held, voters.positions[some])

        def distances(some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
            def expected(part: slice) -> NDArray[np.float32]:
                turned = rope.rotated(numbers(others[part]), voters.positions[some[part]])
                return turned.reshape(len(turned), k.num_elements)

            return k.distances(voters.rows[some], expected)

        groups = group_numbers(voters.keys, voters.tokens)
        outcome = self._vote(order, groups, distances)
        if outcome is None:
            return
        votes, _ = outcome
        winners = votes.winners[votes.winners >= 0]
        # A token's first key counts: rows without one come first.
        tokens, firsts = np.unique(voters.tokens[winners], return_index=True)
        known = UnrotatedK(
            tokens=tokens,
            entries=winners[firsts],
            numbers=numbers,
            rope=rope,
            num_positions=self._num_positions,
        )
        self._elect(order, groups, outcome=outcome, distances=distances, known=known)

    def among_equals(self) -> None:
        """Rows of one token at one position vote, where no rotation is known."""
        k = self.k
        order = self._open_rows("histories", "positions", "tokens", "keys")
        voters = self.verdicts.rows.only(order)

        def distances(some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
            return k.distances(voters.rows[some], lambda part: k.numbers(voters.rows[others[part]]))

        groups = group_numbers(voters.keys, voters.tokens, voters.positions)
        outcome = self._vote(order, groups, distances)
        if outcome is None:
            return
        _, threshold = outcome
        self._elect(order, groups, outcome=outcome, distances=distances, known=None)
        wrong = np.flatnonzero(self.verdicts.is_wrong[order])[:_MAX_SOLVED]
        for member in wrong.tolist():
            is_other = voters.tokens == voters.tokens[member]
            is_other &= voters.positions != voters.positions[member]
            others = np.flatnonzero(is_other)[:_MAX_OTHERS]
            gaps = distances(np.full(len(others), member), others)
            if gaps.min(initial=np.inf) <= threshold.distance:
                self.verdicts.positions[order[member]] = voters.positions[others[gaps.argmin()]]

    @property
    def _num_positions(self) -> int:
        return int(self.verdicts.rows.positions.max(initial=0)) + _POSITIONS_BEYOND

    def _open_rows(self, *keys: str) -> NDArray[np.int64]:
        """The rows that nothing has judged, by some of their fields, the last one first."""
        members = np.flatnonzero(self.verdicts.is_open)
        values = [getattr(self.verdicts.rows, key)[members] for key in keys]
        return members[np.lexsort(values)]

    def _vote(
        self, order: NDArray[np.int64], groups: NDArray[np.int64], distances: VoterDistances
    ) -> tuple[Votes, Threshold] | None:
        """The outcome with its threshold; None where the dump does not tell."""
        if not order.size:
            return None
        histories = self.verdicts.rows.histories[order]
        usable = self.k.readable(self.verdicts.rows.rows[order])
        threshold = proved_threshold(
            distances(*same_pairs(groups, histories, usable)),
            self._different(order[usable]),
            floor=floor_of(self.k.dtype),
            min_pairs=MIN_PAIRS,
        )
        if isinstance(threshold, str):
            return None
        voters = voters_of(self.verdicts.rows.only(order), groups, usable)
        votes = votes_of(voters, distances=distances, tolerance=threshold.distance)
        return votes, threshold

    def _elect(
        self,
        order: NDArray[np.int64],
        groups: NDArray[np.int64],
        *,
        outcome: tuple[Votes, Threshold],
        distances: VoterDistances,
        known: UnrotatedK | None,
    ) -> None:
        """Judge voters by the winners of their groups, unless either side may be the wrong one."""
        votes, threshold = outcome
        winners = votes.winners[groups]
        members = np.flatnonzero(winners >= 0)
        measured = distances(members, winners[members])
        if not members.size:
            return
        share = float((measured > threshold.distance).mean())
        if share <= MAX_WRONG and int((votes.rivals >= 0).sum()) < MIN_VERSIONS:
            self._take(order[members], measured, threshold, known=known)

    def _different(self, members: NDArray[np.int64]) -> NDArray[np.float64]:
        """Distances between rows, as stored, of different tokens."""
        some = self.verdicts.rows.only(members)
        one, other = different_pairs(some.tokens, np.ones(len(some), dtype=np.bool_))
        rows = some.rows
        return self.k.distances(rows[one], lambda part: self.k.numbers(rows[other[part]]))

    def _take(
        self,
        members: NDArray[np.int64],
        distances: NDArray[np.float64],
        threshold: Threshold,
        *,
        known: UnrotatedK | None,
    ) -> None:
        """Enter judged rows, and the positions of wrong ones where the rotation is known."""
        verdicts = self.verdicts
        verdicts.distances[members] = distances
        verdicts.is_wrong[members] = distances > threshold.distance
        verdicts.threshold = verdicts.threshold or threshold
        if known is None:
            return
        known = replace(known, tolerance=_EXPLAINS * threshold.distance)
        verdicts.known = verdicts.known or known
        wrong = members[verdicts.is_wrong[members]][:_MAX_SOLVED]
        entries = known.entries_of(verdicts.rows.tokens[wrong])
        wrong, entries = wrong[entries >= 0], entries[entries >= 0]
        held = self.k.numbers(verdicts.rows.rows[wrong])
        verdicts.positions[wrong] = known.positions_of(held, entries)
