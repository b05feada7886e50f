from __future__ import annotations

import numpy as np

from kvaudit.core.identity import Unjudged
from kvaudit.core.layer0_table import Layer0Table, TableSource
from tests.helpers.layer0_judging import judged
from tests.helpers.layer0_worlds import chatty_world, fixture_f


def test_a_table_judges_every_row_and_finds_the_wrong_one() -> None:
    world = fixture_f()
    world.write([7], [99], [1])
    found = judged(world, world.model.table())
    assert found.is_judged.all()
    assert found.by_table.all()
    assert found.rows.rows[found.is_wrong].tolist() == [7]
    assert found.distances[found.is_wrong][0] > 0.5
    assert found.distances[~found.is_wrong].max() < 0.01
    assert not found.votes.any()


def test_rows_that_no_table_knows_are_judged_by_the_others_of_their_token() -> None:
    world = chatty_world()
    few = world.model.table()
    known = few.tokens < 5
    learnt = Layer0Table(
        tokens=few.tokens[known],
        k0=None,
        v0=few.v0[known],
        dtype=few.dtype,
        num_heads=2,
        head_dim=16,
        source=TableSource.LEARNT,
        rows_seen=np.full(5, 9),
        rows_agreeing=np.full(5, 8),
    )
    found = judged(world, learnt)
    assert (found.rows.tokens[found.by_table] < 5).all()
    assert (found.votes[found.by_table] == 8).all()
    assert (found.against[found.by_table] == 1).all()
    by_votes = found.is_judged & ~found.by_table
    assert by_votes.sum() > 300
    assert (found.votes[by_votes] >= 2).all()
    assert not found.is_wrong.any()


def test_what_is_not_judged_says_why() -> None:
    world = chatty_world()
    slots = world.requests[0].slots
    world.request("disputed", [399], [slots[20]])
    found = judged(world)
    reasons = found.reasons[~found.is_judged]
    assert set(reasons) <= {Unjudged.SEEN_ONCE, Unjudged.NO_MAJORITY, Unjudged.CLAIMED_TWICE}
    assert found.reasons[found.rows.rows == slots[20]].tolist() == [Unjudged.CLAIMED_TWICE]
    seen_once = ~found.is_judged & (found.reasons == Unjudged.SEEN_ONCE)
    counts = np.bincount(found.rows.tokens)
    assert seen_once.sum() > 10
    assert (counts[found.rows.tokens[seen_once]] <= 3).all()


def test_an_extra_key_is_not_judged_by_a_table_alone() -> None:
    world = fixture_f().request("lora", [11, 12], [10, 11], extra_key="adapter")
    world.write([10, 11], [301, 302], [0, 1])
    found = judged(world, world.model.table())
    assert not found.is_wrong.any()
    assert found.reasons[~found.is_judged].tolist() == [Unjudged.EXTRA_KEY] * 2


def test_a_token_of_two_rows_that_differ_has_no_majority() -> None:
    world = chatty_world()
    position, request = next(
        (position, request)
        for request in world.requests
        for position, token in enumerate(request.tokens[: request.kv_len])
        if sum(other.tokens[: other.kv_len].count(token) for other in world.requests) == 2
        and position >= 16
    )
    world.write([request.slots[position]], [399], [position])
    found = judged(world)
    is_its = found.rows.tokens == request.tokens[position]
    assert set(found.reasons[is_its]) == {Unjudged.NO_MAJORITY}
    assert not found.is_wrong.any()
