"""What most rows of one token hold: rows that have nothing to do with each other vote for a content.

A fault is mostly in rows that lie together, and may make the same wrong content of one token twice.
So rows of one history, or of one region, are one vote, rows near ones that a clear majority accuses
have none, and what is to accuse any row has votes of two sequences, where there are two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# The distances of some voters, shape [n], int64, from others, shape [n], int64; shape [n], float64.
VoterDistances = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]

# Different contents of a group that are told apart; rows of further ones vote for none of them.
_MAX_CONTENTS: Final = 4
_WIDTH: Final = _MAX_CONTENTS + 1
_MIN_VOTES: Final = 2
# A clear majority: so many votes, and so many for each against.
_CLEAR_VOTES: Final = 3
_NOBODY: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Voters:
    """Rows that vote, group by group.

    Fields:
        groups: the group of each, shape [n], int64, ascending from 0 without a gap.
        histories: a digest of what led to each, shape [n], uint64.
        sequences: the sequence of each, shape [n], int64.
        regions: the part of its sequence that each is in, shape [n], int64.
        usable: those that can be read, neither zeros nor NaN; shape [n], bool. Others do not vote.
    """

    groups: NDArray[np.int64]
    histories: NDArray[np.uint64]
    sequences: NDArray[np.int64]
    regions: NDArray[np.int64]
    usable: NDArray[np.bool_]

    @property
    def num_groups(self) -> int:
        """Groups."""
        return int(self.groups[-1]) + 1 if len(self.groups) else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Votes:
    """The outcome, a group at a time.

    Fields:
        winners: a voter that holds what most votes are for, shape [num_groups], int64; -1 where no
            content has a majority that can be relied on.
        first: any voter that can be read, shape [num_groups], int64; -1 without one.
        votes: votes for the content that has most, shape [num_groups], int64.
        totals: all votes, of rows near accused ones too, shape [num_groups], int64.
        rivals: a voter that holds the content that comes next, shape [num_groups], int64; -1 where
            none has votes enough to be a content of its own.
    """

    winners: NDArray[np.int64]
    first: NDArray[np.int64]
    votes: NDArray[np.int64]
    totals: NDArray[np.int64]
    rivals: NDArray[np.int64]


def votes_of(voters: Voters, *, distances: VoterDistances, tolerance: float) -> Votes:
    """Let the rows of each group vote.

    Args:
        voters: the rows.
        distances: how far voters are apart.
        tolerance: what is at most that far apart is one content.
    """
    labels, leaders = _contents(voters, distances, tolerance)
    has_vote = voters.usable
    votes, is_clear = _counted(voters, labels, leaders, has_vote=has_vote)
    best = _label_of(votes.winners, labels)
    accused = is_clear[voters.groups] & (labels != best[voters.groups])
    if accused.any():
        has_vote = voters.usable & ~np.isin(voters.regions, np.unique(voters.regions[accused]))
        left, _ = _counted(voters, labels, leaders, has_vote=has_vote, before=votes)
        # Those that lost their vote count again where the outcome is the same.
        is_same = (best >= 0) & (_label_of(left.winners, labels) == best)
        votes = replace(left, votes=np.where(is_same, votes.votes, left.votes))
    return votes


def _contents(
    voters: Voters, distances: VoterDistances, tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The content of each voter, a number within its group, and the first voter of each content."""
    groups = voters.groups
    labels = np.full(len(groups), _MAX_CONTENTS, dtype=np.int64)
    leaders = np.full((voters.num_groups, _WIDTH), _NOBODY, dtype=np.int64)
    remaining = np.flatnonzero(voters.usable)
    for label in range(_MAX_CONTENTS):
        if not remaining.size:
            break
        of_group, firsts = np.unique(groups[remaining], return_index=True)
        leaders[of_group, label] = remaining[firsts]
        is_same = distances(remaining, leaders[groups[remaining], label]) <= tolerance
        labels[remaining[is_same]] = label
        remaining = remaining[~is_same]
    return labels, leaders


def _counted(
    voters: Voters,
    labels: NDArray[np.int64],
    leaders: NDArray[np.int64],
    *,
    has_vote: NDArray[np.bool_],
    before: Votes | None = None,
) -> tuple[Votes, NDArray[np.bool_]]:
    """The outcome of those that have a vote, and which groups have a clear one, [num_groups], bool.

    Totals and rivals are those of a count before, where there was one.
    """
    members = np.flatnonzero(has_vote)
    ballots = voters.groups[members] * _WIDTH + labels[members]

    def different(values: NDArray[Any]) -> NDArray[np.int64]:
        """How many different values each content of each group has, [num_groups, _WIDTH], int64."""
        counts = _different(ballots, values[members], num_ballots=voters.num_groups * _WIDTH)
        return counts.reshape(voters.num_groups, _WIDTH)

    counts = np.minimum(different(voters.histories), different(voters.regions))
    sequences = different(voters.sequences)
    needed = min(_MIN_VOTES, len(np.unique(voters.sequences)))
    order = np.argsort(-counts[:, :_MAX_CONTENTS], axis=1, kind="stable")
    best, second = order[:, :1], order[:, 1:2]
    votes = np.take_along_axis(counts, best, axis=1)[:, 0]
    totals = counts.sum(axis=1) if before is None else before.totals
    against = counts.sum(axis=1) - votes
    may_accuse = np.take_along_axis(sequences, best, axis=1)[:, 0] >= needed
    is_clear = may_accuse & (votes >= _CLEAR_VOTES) & (votes >= _CLEAR_VOTES * against)
    is_enough = may_accuse & (votes >= _MIN_VOTES) & (votes > against)
    is_unanimous = (votes >= _MIN_VOTES) & (votes == totals)
    most = np.take_along_axis(leaders, best, axis=1)[:, 0]
    is_rival = np.take_along_axis(np.minimum(counts, sequences), second, axis=1)[:, 0] >= needed
    is_rival &= np.take_along_axis(counts, second, axis=1)[:, 0] >= _MIN_VOTES
    next_one = np.take_along_axis(leaders, second, axis=1)[:, 0]
    outcome = Votes(
        winners=np.where(is_clear | is_enough | is_unanimous, most, _NOBODY),
        first=leaders[:, 0],
        votes=votes,
        totals=totals,
        rivals=np.where(is_rival, next_one, _NOBODY) if before is None else before.rivals,
    )
    return outcome, is_clear


def _different(
    ballots: NDArray[np.int64], values: NDArray[Any], *, num_ballots: int
) -> NDArray[np.int64]:
    """How many different values, shape [n], each ballot, shape [n], int64, has; [num_ballots]."""
    order = np.lexsort((values, ballots))
    here, of_ballot = values[order], ballots[order]
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = (of_ballot[1:] != of_ballot[:-1]) | (here[1:] != here[:-1])
    return np.bincount(of_ballot[is_new], minlength=num_ballots)


def _label_of(winners: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The content of each group's winner, shape [num_groups], int64; -1 without one."""
    return np.where(winners >= 0, labels[winners], _NOBODY)
