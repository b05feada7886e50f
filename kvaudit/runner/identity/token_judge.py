"""V of layer 0 against the tokens: by a table, and by the dump itself where that does not reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.identity import Threshold, Unjudged
from kvaudit.core.layer0_table import TableSource
from kvaudit.runner.identity.claims import TokenRows
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.pool_table import PoolTable
from kvaudit.runner.identity.token_election import TokenElection
from kvaudit.runner.identity.token_search import KnownRows

_UNJUDGED: Final = -1
# Where more of the rows than that are not like the others of their token, or so many tokens have
# two contents of which one is no other token's, the majority may be the wrong one.
MAX_WRONG: Final = 0.25
MIN_VERSIONS: Final = 2


@dataclass(slots=True, kw_only=True, eq=False)
class TokenVerdicts:
    """What is known of the V of each row; filled source by source.

    Fields:
        rows: the rows.
        distances: from what it should be, shape [n], float64; -1 where it was not judged.
        is_wrong: shape [n], bool.
        votes: rows that what it should be rests on, shape [n], int64; 0 of a model.
        against: rows that speak against it, shape [n], int64.
        reasons: why it was not judged, shape [n], object (Unjudged).
        by_table: whether a table judged it, shape [n], bool.
        source: where most of what was expected comes from.
        threshold: the largest distance that is none.
        known: rows of tokens that a wrong row may be, the surest first.
    """

    rows: TokenRows
    distances: NDArray[np.float64]
    is_wrong: NDArray[np.bool_]
    votes: NDArray[np.int64]
    against: NDArray[np.int64]
    reasons: NDArray[np.object_]
    by_table: NDArray[np.bool_]
    source: TableSource
    threshold: Threshold
    known: list[KnownRows]

    def leave_to_table(self) -> None:
        """Forget what the dump's own rows say."""
        self.forget(~self.by_table)

    def forget(self, members: NDArray[np.bool_]) -> None:
        """Take rows, shape [n], bool, for not judged: either side may be the wrong one."""
        self.distances[members] = _UNJUDGED
        self.is_wrong[members] = False
        self.reasons[members & ~self.rows.is_disputed] = Unjudged.NO_MAJORITY

    @property
    def is_judged(self) -> NDArray[np.bool_]:
        """Which rows were judged, shape [n], bool."""
        judged: NDArray[np.bool_] = self.distances >= 0
        return judged


def judged_tokens(
    rows: TokenRows, v: Layer0Rows, *, table: PoolTable | None, election: TokenElection | None
) -> TokenVerdicts:
    """Judge the V of every row that a table or the other rows of its token speak of.

    Args:
        rows: what each row should hold.
        v: the V column.
        table: the table as this pool holds it; None without one.
        election: what those rows say that the table does not judge; None where they do not tell.

    Raises:
        FileCorrupt: a chunk's digest differs.
    """
    source = TableSource.DUMP if table is None else table.table.source
    chosen = table if table is not None else election
    if chosen is None:
        raise ValueError("neither a table nor an election")
    verdicts = TokenVerdicts(
        rows=rows,
        distances=np.full(len(rows), float(_UNJUDGED)),
        is_wrong=np.zeros(len(rows), dtype=np.bool_),
        votes=np.zeros(len(rows), dtype=np.int64),
        against=np.zeros(len(rows), dtype=np.int64),
        reasons=np.full(len(rows), Unjudged.SEEN_ONCE, dtype=object),
        by_table=np.zeros(len(rows), dtype=np.bool_),
        source=source,
        threshold=chosen.threshold,
        known=[],
    )
    verdicts.reasons[rows.is_disputed] = Unjudged.CLAIMED_TWICE
    if table is not None:
        _by_table(verdicts, v, table)
        verdicts.known.append(table.known())
    if election is not None:
        _by_election(verdicts, v, election)
        verdicts.known += _known_of(v, election)
    if table is not None and election is None:
        verdicts.reasons[(rows.keys != 0) & ~rows.is_disputed] = Unjudged.EXTRA_KEY
    return verdicts


def why_not_told(verdicts: TokenVerdicts, v: Layer0Rows, election: TokenElection) -> str:
    """Why the dump does not tell by itself which of its rows are wrong; "" where it does.

    Either there are too many that are not like the others of their token, or they are like each
    other, and like no other token: then the pool holds two versions of its tokens.
    """
    by_votes = verdicts.is_judged & ~verdicts.by_table
    share = float(verdicts.is_wrong[by_votes].mean()) if by_votes.any() else 0.0
    if share > MAX_WRONG:
        return (
            f"{share:.0%} of the rows are not like the others of their token, and either may be "
            "the wrong ones: a table tells"
        )
    rivals = election.votes.rivals[election.votes.rivals >= 0]
    if len(rivals) < MIN_VERSIONS:
        return ""
    rows = v.numbers(election.voters.rows[rivals])
    sure = _known_of(v, election)[0]
    _, distances = sure.nearest(rows, v.launch_distance)
    unknown = int(np.count_nonzero(distances > election.threshold.distance))
    if unknown < MIN_VERSIONS:
        return ""
    return (
        f"{unknown} tokens have two contents each, and either may be the wrong one: a table tells"
    )


def _by_table(verdicts: TokenVerdicts, v: Layer0Rows, table: PoolTable) -> None:
    """Rows without an extra key, which may stand for other weights, whose token the table knows."""
    rows = verdicts.rows
    entries = table.entries_for(rows)
    members = np.flatnonzero(entries >= 0)
    entries = entries[members]
    distances = v.distances(rows.rows[members], lambda part: table.v_numbers(entries[part]))
    verdicts.distances[members] = distances
    verdicts.is_wrong[members] = distances > table.threshold.distance
    verdicts.by_table[members] = True
    seen, agreeing = table.table.rows_seen, table.table.rows_agreeing
    if seen is not None and agreeing is not None:
        verdicts.votes[members] = agreeing[entries]
        verdicts.against[members] = seen[entries] - agreeing[entries]


def _by_election(verdicts: TokenVerdicts, v: Layer0Rows, election: TokenElection) -> None:
    """Rows that no table judged, by what most rows of their token hold."""
    rows, voters, votes = verdicts.rows, election.voters, election.votes
    place = np.searchsorted(rows.rows, voters.rows)
    is_open = ~voters.is_disputed
    winners = votes.winners[election.groups]
    split = is_open & (winners < 0) & (votes.totals[election.groups] > 1)
    verdicts.reasons[place[split]] = Unjudged.NO_MAJORITY
    members = np.flatnonzero(is_open & (winners >= 0))
    winner_rows = voters.rows[winners[members]]
    distances = v.distances(voters.rows[members], lambda part: v.numbers(winner_rows[part]))
    judged, of_group = place[members], election.groups[members]
    verdicts.distances[judged] = distances
    verdicts.is_wrong[judged] = distances > election.threshold.distance
    verdicts.votes[judged] = votes.votes[of_group]
    verdicts.against[judged] = votes.totals[of_group] - votes.votes[of_group]


def _known_of(v: Layer0Rows, election: TokenElection) -> list[KnownRows]:
    """The rows of the dump's tokens: first those that most agree on, then those of the others."""
    votes, voters = election.votes, election.voters
    sure = votes.winners[votes.winners >= 0]
    unsure = votes.first[(votes.winners < 0) & (votes.first >= 0)]

    def known(members: NDArray[np.int64]) -> KnownRows:
        return KnownRows(
            tokens=voters.tokens[members],
            numbers=lambda some: v.numbers(voters.rows[members[some]]),
            num_elements=v.num_elements,
        )

    return [known(sure), known(unsure)]
