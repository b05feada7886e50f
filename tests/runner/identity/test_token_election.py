from __future__ import annotations

import numpy as np

from kvaudit.kernels.distance.numba_cpu import launch_distance
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.token_election import (
    TokenElection,
    different_pairs,
    elected,
    group_numbers,
    same_pairs,
)
from tests.helpers.layer0_judging import rows_of
from tests.helpers.layer0_worlds import Layer0World, V, chatty_world


def election_of(world: Layer0World) -> TokenElection | str:
    column = world.pool().snapshot.kv[V]
    return elected(rows_of(world), Layer0Rows(columns=[column], launch_distance=launch_distance))


def test_the_rows_of_a_clean_pool_agree_on_every_token_that_comes_again() -> None:
    world = chatty_world()
    found = election_of(world)
    assert isinstance(found, TokenElection)
    votes = found.votes
    assert (votes.votes == votes.totals).all()
    assert (votes.winners >= 0).sum() > 60
    tokens = found.voters.tokens[votes.winners[votes.winners >= 0]]
    rows = found.voters.rows[votes.winners[votes.winners >= 0]]
    assert (world.v[rows] == world.model.v(tokens.tolist())).all()


def test_pairs_of_one_group_have_different_histories() -> None:
    groups = np.array([0, 0, 0, 1, 2, 2])
    histories = np.array([5, 5, 6, 5, 7, 8], dtype=np.uint64)
    usable = np.array([True, True, True, True, True, False])
    one, other = same_pairs(groups, histories, usable)
    assert list(zip(one.tolist(), other.tolist(), strict=True)) == [(1, 2)]


def test_different_pairs_are_of_different_contents_and_can_be_read() -> None:
    contents = np.array([1, 1, 2, 3])
    one, other = different_pairs(contents, np.array([True, True, True, False]))
    assert one.size
    assert (contents[one] != contents[other]).all()
    assert 3 not in {*one.tolist(), *other.tolist()}
    assert different_pairs(contents, np.zeros(4, dtype=np.bool_))[0].size == 0


def test_groups_are_runs_of_equal_keys() -> None:
    assert group_numbers(np.array([0, 0, 0, 1]), np.array([4, 4, 9, 9])).tolist() == [0, 0, 1, 2]


def test_content_that_depends_on_more_than_the_token_elects_nothing() -> None:
    world = chatty_world()
    rng = np.random.default_rng(3)
    world.v[:] = world.model.stored(rng.standard_normal((world.num_slots, 32)).astype(np.float32))
    found = election_of(world)
    assert isinstance(found, str)
    assert "depend on more than it" in found


def test_a_pool_of_zeros_elects_nothing_and_says_why() -> None:
    world = chatty_world()
    world.v[:] = 0
    assert election_of(world) == "no row can be read: they are zeros, or no numbers"
