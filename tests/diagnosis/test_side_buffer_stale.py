"""KV308: side buffers that were not moved with K and V."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, build

SCALES = "kv.side.scales"


def _world(page_size: int = 2, *, stamps: tuple[str, ...] = F_STAMPS, length: int = 4) -> World:
    """Requests A and B with scales beside their K and V."""
    room = -(-length // page_size) * page_size
    builder = build(num_slots=3 * (page_size + room), page_size=page_size, stamps=stamps)
    world = builder.world
    world.kv[SCALES] = np.zeros((world.num_slots, 16), dtype=np.uint8)
    world.stamps[SCALES] = np.zeros(world.num_slots, dtype=np.uint64)
    for number, name in enumerate("AB"):
        first = page_size + number * room
        tokens = range(11 + 10 * number, 11 + 10 * number + length)
        builder.request(name, tokens=tokens, slots=range(first, first + length))
    return builder.done()


@pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_scales_that_are_another_slots_are_named(page_size: int, digests_only: bool) -> None:
    world = _world(page_size, length=80)
    slots = world.request_of("B").slots[10:13]
    others = world.request_of("A").slots[10:13]
    world.kv[SCALES][slots] = world.kv[SCALES][others]
    finding = finding_of(world.dataset(snapshot=world.snapshot(digests_only=digests_only)))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV308", slots, ["B"])
    assert f"is that of slot {others[0]} " in finding.summary
    assert not finding.alternatives


def test_scales_that_never_arrived_are_no_zero_tail() -> None:
    world = _world()
    slots = world.request_of("B").slots[2:]
    world.kv[SCALES][slots] = 0
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV308", slots)
    assert "kv.side.scales of" in finding.summary
    assert "is zero, and its K and V are as stamped; 2 slots in a row" in finding.summary


@pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("records", [False, True], ids=["bytes alone", "records too"])
def test_scales_that_are_zero_with_their_k_and_v_are_part_of_the_tail(
    records: bool, digests_only: bool
) -> None:
    world = _world()
    slots = world.request_of("B").slots[2:]
    corruptions.zero_slots(world, slots, records=records)
    finding = finding_of(world.dataset(snapshot=world.snapshot(digests_only=digests_only)))
    assert (finding.rule, finding.slots) == ("KV302", slots)


def test_scales_that_are_zero_beside_the_tail_stay_a_finding_of_their_own() -> None:
    world = _world()
    slots = world.request_of("B").slots
    corruptions.zero_slots(world, slots[3:], records=False)
    world.kv[SCALES][slots[1:]] = 0
    found = {(finding.rule, *finding.slots) for finding in findings_of(world)}
    assert found == {("KV302", *slots[3:]), ("KV308", *slots[1:3])}


def test_without_stamps_of_k_and_v_it_says_what_would_settle_it() -> None:
    world = _world(stamps=())
    world.kv[SCALES][7] ^= 0x5A
    finding = finding_of(world)
    assert (finding.rule, list(finding.alternatives)) == ("KV308", ["KV301"])
    assert finding.settled_by == "stamps of K and V"


def test_a_flipped_bit_of_a_scale_is_a_flip() -> None:
    world = _world()
    corruptions.flip_bit(world, SCALES, 7)
    assert [finding.rule for finding in findings_of(world)] == ["KV304"]


def test_a_slot_of_which_k_and_v_differ_too_is_no_stale_scale() -> None:
    world = _world()
    corruptions.overwrite_bytes(world, 7)
    assert not report_of(world, select=("KV308",)).findings


def test_a_clean_pool_has_no_finding() -> None:
    assert not findings_of(_world())
