from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.layer0_table import TableSource
from kvaudit.core.rope import Rope
from kvaudit.kernels.distance.numba_cpu import launch_distance
from kvaudit.runner.identity.layer0_rows import Layer0Rows
from kvaudit.runner.identity.pool_table import PoolTable
from kvaudit.runner.identity.position_judge import judged_positions
from kvaudit.runner.identity.position_verdicts import PositionVerdicts
from kvaudit.runner.identity.table_fit import fitted_table
from tests.helpers.layer0_judging import rows_of, rows_of_v
from tests.helpers.layer0_worlds import K, Layer0World, TokenModel, chatty_world, fixture_f


def judged(
    world: Layer0World, *, rope: Rope | None, by_table: bool = False, **table: object
) -> PositionVerdicts:
    rows = rows_of(world)
    k = Layer0Rows(columns=[world.pool().snapshot.kv[K]], launch_distance=launch_distance)
    fitted = None
    if by_table:
        given = world.model.table(**table)
        fitted = fitted_table(given, world.pool().snapshot, rows_of_v(world), rows=rows)
        assert isinstance(fitted, PoolTable)
    return judged_positions(rows, k, rope=rope, table=fitted)


def wrong_rows(found: PositionVerdicts) -> dict[int, int]:
    """The position that each wrong row was rotated for, by row."""
    members = np.flatnonzero(found.is_wrong)
    return dict(
        zip(found.rows.rows[members].tolist(), found.positions[members].tolist(), strict=True)
    )


@pytest.mark.parametrize("position", [0, 2, 3, 50])
def test_a_table_tells_the_position_of_every_row(position: int) -> None:
    world = fixture_f()
    world.k[7] = world.model.k([22], [position])[0]
    found = judged(world, rope=world.model.rope, by_table=True)
    assert not found.is_open.any()
    assert wrong_rows(found) == {7: position}


def test_a_pool_that_is_all_one_position_off_is_told_too() -> None:
    world = fixture_f()
    rows = rows_of(world)
    world.k[rows.rows] = world.model.k(rows.tokens.tolist(), (rows.positions + 1).tolist())
    found = judged(world, rope=world.model.rope, by_table=True)
    assert wrong_rows(found) == dict(
        zip(rows.rows.tolist(), (rows.positions + 1).tolist(), strict=True)
    )


def test_rows_of_one_token_are_turned_back_and_vote() -> None:
    world = chatty_world()
    request = world.requests[2]
    # Of this token there are many rows.
    place = next(p for p in range(20, 60) if request.tokens[p] < 3)
    slot = request.slots[place]
    world.k[slot] = world.model.k([request.tokens[place]], [place + 7])[0]
    found = judged(world, rope=world.model.rope)
    assert (~found.is_open).sum() > 600
    assert wrong_rows(found) == {slot: place + 7}


def test_without_a_rotation_rows_of_one_token_at_one_position_vote() -> None:
    world = chatty_world(num_requests=40)
    counts: dict[tuple[int, int], list[int]] = {}
    for request in world.requests:
        for place in range(16, request.kv_len):
            counts.setdefault((request.tokens[place], place), []).append(request.slots[place])
    (token, place), slots = max(counts.items(), key=lambda item: len(item[1]))
    other = next(p for t, p in counts if t == token and p != place)
    assert len(slots) > 4
    world.k[slots[0]] = world.model.k([token], [other])[0]
    found = judged(world, rope=None)
    assert wrong_rows(found) == {slots[0]: other}


def test_a_wrong_rotation_accuses_nobody() -> None:
    world = chatty_world()
    wrong = TokenModel(head_dim=16).rope
    frequencies = wrong.inverse_frequencies * 1.7 + 0.01
    rope = Rope(inverse_frequencies=frequencies, head_dim=16)
    for by_table in (False, True):
        found = judged(world, rope=rope, by_table=by_table)
        assert not found.is_wrong.any()


def test_k_that_depends_on_more_is_not_judged() -> None:
    world = chatty_world()
    rng = np.random.default_rng(5)
    world.k[:] = world.model.stored(rng.standard_normal((world.num_slots, 32)).astype(np.float32))
    found = judged(world, rope=world.model.rope)
    assert found.is_open.all()
    assert (found.threshold, found.known) == (None, None)


def test_a_table_without_k_leaves_it_to_the_dump() -> None:
    world = chatty_world()
    found = judged(world, rope=world.model.rope, by_table=True, k0=None, source=TableSource.MODEL)
    assert (~found.is_open).any()
    assert found.is_open.any()


def test_no_row_is_no_verdict() -> None:
    world = fixture_f()
    k = Layer0Rows(columns=[world.pool().snapshot.kv[K]], launch_distance=launch_distance)
    none = rows_of(world).only(np.empty(0, dtype=np.int64))
    found = judged_positions(none, k, rope=world.model.rope, table=None)
    assert (len(found.distances), found.threshold) == (0, None)


def test_a_pool_with_two_versions_of_its_positions_accuses_neither() -> None:
    world = chatty_world(num_requests=16)
    for request in world.requests[:4]:
        own = request.slots[16 : request.kv_len]
        tokens = request.tokens[16 : request.kv_len]
        world.k[own] = world.model.k(tokens, range(17, 17 + len(own)))
    found = judged(world, rope=world.model.rope)
    assert not found.is_wrong.any()
    by_table = judged(world, rope=world.model.rope, by_table=True)
    assert by_table.is_wrong.sum() > 200
