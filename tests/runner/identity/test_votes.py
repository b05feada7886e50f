from __future__ import annotations

import numpy as np

from kvaudit.runner.identity.votes import Voters, Votes, votes_of


def outcome(
    contents: list[float],
    *,
    groups: list[int] | None = None,
    histories: list[int] | None = None,
    regions: list[int] | None = None,
    sequences: list[int] | None = None,
    unusable: tuple[int, ...] = (),
) -> Votes:
    """A vote of rows that are single numbers; by default all of one group and of nothing else alike."""
    each = list(range(len(contents)))
    values = np.array(contents)
    usable = np.ones(len(each), dtype=np.bool_)
    usable[list(unusable)] = False
    voters = Voters(
        groups=np.array(groups or [0] * len(each), dtype=np.int64),
        histories=np.array(histories or each, dtype=np.uint64),
        sequences=np.array(sequences or each, dtype=np.int64),
        regions=np.array(regions or each, dtype=np.int64),
        usable=usable,
    )
    return votes_of(
        voters, distances=lambda some, others: np.abs(values[some] - values[others]), tolerance=0.1
    )


def test_the_content_of_most_rows_wins_with_its_votes() -> None:
    found = outcome([5, 1, 5, 5, 5.05])
    assert (found.winners.tolist(), found.votes.tolist(), found.totals.tolist()) == ([0], [4], [5])


def test_two_that_differ_accuse_nobody() -> None:
    found = outcome([5, 1])
    assert (found.winners.tolist(), found.totals.tolist()) == ([-1], [2])


def test_two_against_one_win_if_they_are_of_different_sequences() -> None:
    assert outcome([5, 5, 1]).winners.tolist() == [0]
    assert outcome([5, 5, 1], sequences=[7, 7, 8]).winners.tolist() == [-1]


def test_a_history_is_one_vote_however_many_rows_it_has() -> None:
    found = outcome([5, 5, 5, 5, 1, 1], histories=[3, 3, 3, 3, 8, 9])
    assert found.winners.tolist() == [4]
    assert (found.votes.tolist(), found.totals.tolist()) == ([2], [3])


def test_a_region_is_one_vote_however_many_rows_it_has() -> None:
    found = outcome([5, 5, 5, 1, 1], regions=[4, 4, 4, 6, 7])
    assert found.winners.tolist() == [3]


def test_a_row_that_is_alone_wins_nothing() -> None:
    found = outcome([5])
    assert (found.winners.tolist(), found.first.tolist(), found.totals.tolist()) == ([-1], [0], [1])


def test_what_cannot_be_read_has_no_vote() -> None:
    found = outcome([0, 0, 0, 5, 5], unusable=(0, 1, 2))
    assert (found.winners.tolist(), found.totals.tolist()) == ([3], [2])
    assert outcome([0, 0], unusable=(0, 1)).first.tolist() == [-1]


def test_rows_near_clearly_wrong_ones_have_no_vote() -> None:
    """Region 9 holds other heads: of the second token it has most rows, and they agree."""
    found = outcome(
        [5, 5, 5, 6, 2, 3, 3],
        groups=[0, 0, 0, 0, 1, 1, 1],
        regions=[1, 2, 3, 9, 4, 9, 10],
        sequences=[1, 2, 3, 4, 5, 4, 6],
    )
    assert found.winners[0] == 0
    assert found.winners[1] == -1
    assert (found.votes.tolist(), found.totals.tolist()) == ([3, 1], [4, 3])


def test_many_different_contents_are_no_majority() -> None:
    assert outcome([1, 2, 3, 4, 5, 6, 7, 8, 1]).winners.tolist() == [-1]


def test_groups_do_not_see_each_other() -> None:
    found = outcome([5, 5, 7, 7], groups=[0, 0, 1, 1])
    assert found.winners.tolist() == [0, 2]


def test_nobody_votes_in_an_empty_pool() -> None:
    assert outcome([]).winners.tolist() == []


def test_one_sequence_alone_accuses_no_other() -> None:
    of_one = outcome([5, 5, 5, 1], sequences=[7, 7, 7, 8])
    assert of_one.winners.tolist() == [-1]
    assert outcome([5, 5, 5, 1], sequences=[7, 7, 7, 7]).winners.tolist() == [0]
    assert outcome([5, 5, 5], sequences=[7, 7, 7]).winners.tolist() == [0]


def test_a_second_content_of_two_sequences_is_a_rival() -> None:
    assert outcome([5, 5, 5, 5, 1, 1]).rivals.tolist() == [4]
    assert outcome([5, 5, 5, 5, 1]).rivals.tolist() == [-1]
    assert outcome([5, 5, 5, 5, 1, 1], sequences=[1, 2, 3, 4, 9, 9]).rivals.tolist() == [-1]
    assert outcome([5, 5, 5, 1, 2]).rivals.tolist() == [-1]
