"""What a dump itself says of its tokens: rows of one token vote for the content of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.identity import Threshold
from kvaudit.runner.identity.claims import TokenRows
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.threshold import MAX_PAIRS, floor_of, threshold_of
from kvaudit.runner.identity.votes import Voters, Votes, votes_of

_SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenElection:
    """The vote of a dump's rows on the V of their tokens.

    Fields:
        voters: the rows, by key, token and history.
        groups: the group of each, one a (key, token), shape [n], int64.
        votes: the outcome; its voters are numbers among `voters`.
        threshold: how far two rows of one content may be apart.
    """

    voters: TokenRows
    groups: NDArray[np.int64]
    votes: Votes
    threshold: Threshold


def elected(rows: TokenRows, v: Layer0Rows) -> TokenElection | str:
    """Let all rows vote.

    Args:
        rows: what each row should hold; disputed rows do not vote.
        v: the V column.

    Returns:
        the outcome, or why the dump does not tell.

    Raises:
        FileCorrupt: a chunk's digest differs.
    """
    order = np.lexsort((rows.histories, rows.tokens, rows.keys))
    voters = rows.only(order)
    readable = v.readable(voters.rows)
    if not readable.any():
        return "no row can be read: they are zeros, or no numbers"
    usable = readable & ~voters.is_disputed
    groups = group_numbers(voters.keys, voters.tokens)

    def distances(some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
        return v.distances(voters.rows[some], lambda part: v.numbers(voters.rows[others[part]]))

    same = same_pairs(groups, voters.histories, usable)
    different = different_pairs(voters.tokens, usable)
    threshold = threshold_of(distances(*same), distances(*different), floor=floor_of(v.dtype))
    if isinstance(threshold, str):
        return threshold
    votes = votes_of(
        voters_of(voters, groups, usable), distances=distances, tolerance=threshold.distance
    )
    return TokenElection(voters=voters, groups=groups, votes=votes, threshold=threshold)


def voters_of(rows: TokenRows, groups: NDArray[np.int64], usable: NDArray[np.bool_]) -> Voters:
    """Rows as voters.

    Args:
        rows: the rows, by group.
        groups: the group of each, shape [n], int64.
        usable: those that can be read, shape [n], bool.
    """
    return Voters(
        groups=groups,
        histories=rows.histories,
        sequences=rows.sequences,
        regions=rows.regions,
        usable=usable,
    )


def group_numbers(*sorted_keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each run of equal keys, from 0, shape [n], int64."""
    starts = np.zeros(len(sorted_keys[0]), dtype=np.bool_)
    for keys in sorted_keys:
        starts[1:] |= keys[1:] != keys[:-1]
    return np.cumsum(starts)


def same_pairs(
    groups: NDArray[np.int64], histories: NDArray[np.uint64], usable: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of one group whose histories differ: what is alike in them is the group's alone.

    Args:
        groups: group of each voter, shape [n], int64, ascending; within it by history.
        histories: shape [n], uint64.
        usable: shape [n], bool.

    Returns:
        the voters of each pair, shape [p] each, int64; at most MAX_PAIRS.
    """
    voters = np.flatnonzero(usable)
    one, other = voters[:-1], voters[1:]
    fits = (groups[one] == groups[other]) & (histories[one] != histories[other])
    return _some(one[fits]), _some(other[fits])


def different_pairs(
    contents: NDArray[np.int64], usable: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random pairs of different contents, shape [n], int64: the voters of each, shape [p], int64."""
    voters = np.flatnonzero(usable)
    rng = np.random.default_rng(_SEED)
    one, other = rng.choice(voters, (2, MAX_PAIRS)) if voters.size else np.empty((2, 0), np.int64)
    fits = contents[one] != contents[other]
    return one[fits], other[fits]


def _some(members: NDArray[np.int64]) -> NDArray[np.int64]:
    """At most MAX_PAIRS of the members, evenly spread."""
    if len(members) <= MAX_PAIRS:
        return members
    return members[np.linspace(0, len(members) - 1, MAX_PAIRS).astype(np.int64)]
