"""Content of those who had a slot before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.diagnosis.byte_moves import moved_bytes
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.earlier_owners import earlier_bytes
from kvaudit.diagnosis.failures import Failures
from tests.helpers.failing import failing
from tests.helpers.given_away import audited_pool, saved_pool, write_late
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, fixture_f


def _view(world: World, *saved: World) -> ByteView:
    evidence = replace(failing(world), earlier=tuple(map(audited_pool, saved)))
    return Failures(evidence).byte_view


def _found(world: World, *saved: World) -> dict[str, list[int]]:
    return {each.owner: each.rows.tolist() for each in earlier_bytes(_view(world, *saved))}


def test_bytes_that_were_there_before_are_the_earlier_owners() -> None:
    world, saved = fixture_f(stamps=F_STAMPS), saved_pool()
    write_late(world, saved, [7, 8])
    assert _found(world, saved) == {"request F": [7, 8]}
    assert not _found(world)


def test_each_owner_has_its_own_rows_and_the_latest_comes_first() -> None:
    first, second = saved_pool(1), saved_pool(2, request_id="G", tokens=range(71, 73))
    world = fixture_f(stamps=F_STAMPS)
    write_late(world, first, [6, 9])
    # Both had the same in slot 6, since their tokens were the same.
    assert _found(world, second, first) == {"request G": [6], "request F": [9]}


def test_every_column_that_differs_has_to_fit() -> None:
    world, saved = fixture_f(stamps=F_STAMPS), saved_pool()
    write_late(world, saved, [7])
    world.kv["kv.v.1"][7] ^= 1
    assert not _found(world, saved)


def test_zero_bytes_are_nobodys() -> None:
    world, saved = fixture_f(stamps=F_STAMPS), saved_pool()
    for name in F_STAMPS:
        world.kv[name][7] = 0
        saved.stamps[name][7] = 0
    assert not _found(world, saved)


def test_a_saved_pool_without_stamps_proves_nothing() -> None:
    world, saved = fixture_f(stamps=F_STAMPS), saved_pool()
    write_late(world, saved, [7])
    saved.stamps.clear()
    assert not _found(world, saved)


def test_what_was_there_before_came_from_no_other_slot() -> None:
    """A live request holds the same, since its prompt begins with the same tokens."""
    world, saved = fixture_f(stamps=F_STAMPS, num_slots=32), saved_pool()
    for name, data in world.kv.items():
        data[20], world.stamps[name][20] = saved.kv[name][7], saved.stamps[name][7]
    write_late(world, saved, [7])
    assert [moved.homes.tolist() for moved in moved_bytes(_view(world))] == [[20]]
    assert not moved_bytes(_view(world, saved))
    assert np.array_equal(world.kv["kv.k.0"][20], world.kv["kv.k.0"][7])
