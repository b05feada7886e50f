from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.claims import claims_of
from kvaudit.core.dataset import Dataset
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.slot_readers import Neighbour, SlotReader
from kvaudit.runner.blame.slot_claims import claims_on
from kvaudit.runner.blame.slot_neighbours import (
    AFTER,
    BEFORE,
    CHAINED_AFTER,
    CHAINED_BEFORE,
    EXPECTED_AFTER,
    EXPECTED_BEFORE,
    MAX_OF_ROLE,
    MAX_READERS,
    SlotNeighbours,
)
from kvaudit.runner.expectations import expectations_of
from tests.helpers import corruptions
from tests.helpers.blaming import alone, by_plan
from tests.helpers.worlds import World, build, fixture_f, link


def _found(pools: World | Dataset, slot: int) -> list[Neighbour]:
    pool = (pools.dataset() if isinstance(pools, World) else pools).pools[0]
    snapshot = pool.snapshot
    records = {name: column.read().view(np.uint64) for name, column in snapshot.canary.items()}
    hashes = {
        name: np.array([link(*map(int, (r[2], r[0], r[1]))) for r in rows], dtype=np.uint64)
        for name, rows in records.items()
    }
    neighbours = SlotNeighbours(
        snapshot=snapshot,
        row=int(snapshot.rows_of(np.array([slot]))[0]),
        claims=claims_of(expectations_of(pool, ALL_ENTRIES).sources, snapshot),
        records=records,
        slot_hashes=hashes,
    )
    return neighbours.all(list(claims_on(slot, pool, slot_hashes=hashes)))


def _roles(pools: World | Dataset, slot: int) -> dict[int, list[str]]:
    return {neighbour.slot: list(neighbour.roles) for neighbour in _found(pools, slot)}


def test_a_sound_slot_stands_between_those_that_it_is_chained_to() -> None:
    before, after = _found(fixture_f(), 7)
    assert before == Neighbour(
        slot=6,
        roles=[BEFORE, EXPECTED_BEFORE, CHAINED_BEFORE],
        token=21,
        position=0,
        readers=[SlotReader(request_id="B", position=0)],
    )
    assert (after.slot, after.roles) == (8, [AFTER, EXPECTED_AFTER, CHAINED_AFTER])


def test_the_record_says_otherwise_where_it_is_anothers() -> None:
    world = fixture_f()
    corruptions.copy_slots(world, [4], [7])
    assert _roles(world, 7) == {
        6: [BEFORE, EXPECTED_BEFORE],
        8: [AFTER, EXPECTED_AFTER],
        3: [CHAINED_BEFORE],
        5: [CHAINED_AFTER],
    }


def test_a_shared_prefix_has_several_behind_it() -> None:
    world = (
        build()
        .request("A", tokens=[11, 12, 13], slots=[2, 3, 4])
        .request("C", tokens=[11, 12, 33], slots=[2, 3, 8], shared=2)
        .done()
    )
    roles = _roles(world, 3)
    assert roles[8] == [EXPECTED_AFTER, CHAINED_AFTER]
    assert [r.request_id for r in _found(world, 3)[0].readers] == ["A", "C"]


def test_a_head_follows_nothing_and_a_zero_record_is_chained_to_nothing() -> None:
    assert not any(EXPECTED_BEFORE in roles for roles in _roles(fixture_f(), 2).values())
    assert _roles(fixture_f(), 12) == {11: [BEFORE], 13: [AFTER]}


def test_without_expectations_the_records_alone_tell() -> None:
    found = _found(alone(fixture_f().snapshot()), 7)
    assert [(n.slot, n.roles, n.readers) for n in found] == [
        (6, [BEFORE, CHAINED_BEFORE], []),
        (8, [AFTER, CHAINED_AFTER], []),
    ]


def test_slots_that_were_not_dumped_are_left_out() -> None:
    world = fixture_f()
    pool = world.dataset(snapshot=world.snapshot(slots=[3, 7, 9]))
    assert _roles(pool, 7) == {}


def test_reserved_slots_hold_garbage_and_are_chained_to_nothing() -> None:
    world = fixture_f()
    world.records["k.tail"][0] = world.records["k.tail"][6]
    assert 0 not in _roles(world, 7)


def test_only_the_first_of_many_are_listed() -> None:
    world = build(num_slots=64).request("A", tokens=[1], slots=[2]).done()
    for number in range(20):
        world.requests.append(replace(world.requests[0], request_id=f"r{number}"))
    world.records["k.tail"][20:60] = (
        5,
        1,
        link(*map(int, world.records["k.tail"][2][[2, 0, 1]])),
        0,
    )
    assert sum(CHAINED_AFTER in roles for roles in _roles(world, 2).values()) == MAX_OF_ROLE
    assert len(_found(world, 3)[0].readers) == MAX_READERS


def test_the_launches_of_a_plan_name_a_reader_once() -> None:
    pools = by_plan(fixture_f())
    pool = pools.pools[0]
    twice = replace(pool, plans=(*pool.plans, *pool.plans))
    assert _found(Dataset(pools=[twice]), 7)[0].readers == [SlotReader(request_id="B", position=0)]
