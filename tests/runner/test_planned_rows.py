"""Which slots are planned, and which of them the dump lacks."""

from __future__ import annotations

import numpy as np

from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.expectations import expectations_of
from kvaudit.runner.planned_rows import PlannedRows, planned_rows
from kvaudit.runner.row_space import RowSpace
from tests.helpers.worlds import World, fixture_f


def _planned(world: World, snapshot: Snapshot) -> PlannedRows:
    pool = AuditedPool(snapshot=snapshot, sequences=(world.sequences(),))
    return planned_rows(expectations_of(pool, ALL_ENTRIES).sources, RowSpace(snapshot))


def test_each_slot_counts_once_however_many_read_it() -> None:
    world = fixture_f()
    world.requests.append(world.requests[0])
    snapshot = world.snapshot()
    assert snapshot.slots[_planned(world, snapshot).rows].tolist() == [2, 3, 4, 5, 6, 7, 8, 9]


def test_padding_and_slots_outside_the_pool_are_no_slots() -> None:
    world = fixture_f()
    world.request_of("A").slots = [0, -3, 99, 5]
    snapshot = world.snapshot()
    planned = _planned(world, snapshot)
    assert snapshot.slots[planned.rows].tolist() == [5, 6, 7, 8, 9]
    assert planned.absent_slots.tolist() == []


def test_slots_of_the_pool_that_the_dump_lacks_are_absent() -> None:
    world = fixture_f()
    world.request_of("A").slots = [0, 3, 99, 5]
    planned = _planned(world, world.snapshot(slots=[5, 6]))
    assert planned.absent_slots.tolist() == [3, 7, 8, 9]
    assert planned.num_slots == 6


def test_further_rows_are_planned_beside_those_that_are_named() -> None:
    world = fixture_f()
    world.evidence["stamped_step"] = np.where(np.isin(np.arange(16), [5, 12]), -1, 3)
    snapshot = world.snapshot(slots=[4, 5, 6, 12, 13])
    further = np.isin(snapshot.slots, [6, 12, 13])
    planned = _planned(world, snapshot).with_rows(further, RowSpace(snapshot))
    assert snapshot.slots[planned.rows].tolist() == [4, 5, 6, 12, 13]
    assert snapshot.slots[planned.stampable].tolist() == [4, 6, 13]
    assert planned.absent_slots.tolist() == [2, 3, 7, 8, 9]


def test_a_disabled_plan_names_nothing() -> None:
    world = fixture_f()
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(enable=False),))
    sources = expectations_of(pool, ALL_ENTRIES).sources
    assert planned_rows(sources, RowSpace(pool.snapshot)).num_slots == 0


def test_planned_rows_that_were_never_stamped_are_not_stampable() -> None:
    world = fixture_f()
    planned = _planned(world, world.snapshot())
    assert planned.stampable is planned.rows
    world.evidence["stamped_step"] = np.where(np.isin(np.arange(16), [4, 5, 12]), -1, 3)
    planned = _planned(world, world.snapshot())
    assert np.flatnonzero(planned.rows & ~planned.stampable).tolist() == [4, 5]
