"""Hashes and bytes of the slots that a rule asks for."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.availability import choose
from kvaudit.constants import RealKvHashMode
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.row_space import RowSpace
from kvaudit.runner.slot_content import SlotContent
from tests.helpers.worlds import World, fixture_f, fold, link

ROWS = np.array([9, 2, 2, 0])


def _content(snapshot: Snapshot, name: str = "cpu") -> SlotContent:
    backend, _ = choose(name, kv_bytes=0, num_entries=0)
    return SlotContent(snapshot, space=RowSpace(snapshot), backend=backend)


def _world() -> World:
    return fixture_f(mode=RealKvHashMode.ALL, row_bytes=20)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("slots", [None, [2, 3, 8, 9]], ids=["dense", "sparse"])
def test_the_slot_hash_of_every_row_is_the_link_of_its_record(
    backend: str, slots: list[int] | None
) -> None:
    world = _world()
    content = _content(world.snapshot(slots=slots), backend)
    rows = range(world.num_slots) if slots is None else slots
    records = world.records["k.tail"]
    hashes = content.slot_hashes("k.tail")
    assert hashes.tolist() == [
        link(int(records[row, 2]), int(records[row, 0]), int(records[row, 1])) for row in rows
    ]
    assert content.slot_hashes("k.tail") is hashes


@pytest.mark.parametrize("digests_only", [False, True])
def test_source_hashes_come_in_the_order_asked_for_dumped_or_recomputed(digests_only: bool) -> None:
    world = _world()
    hashes = _content(world.snapshot(digests_only=digests_only)).source_hashes("kv.v.1", ROWS)
    assert hashes is not None
    assert hashes.tolist() == [fold(world.kv["kv.v.1"][row].tobytes()) for row in ROWS]


def test_bytes_come_in_the_order_asked_for() -> None:
    world = _world()
    data = _content(world.snapshot()).kv_bytes("kv.k.0", ROWS)
    assert np.array_equal(data, world.kv["kv.k.0"][ROWS])


def test_what_the_file_lacks_is_none() -> None:
    content = _content(_world().snapshot(digests_only=True))
    assert content.kv_bytes("kv.k.0", ROWS) is None
    assert content.source_hashes("kv.k.7", ROWS) is None
