"""KV102: slots that the pool does not have."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import OUT_OF_TABLE_SLOT
from kvaudit.core.entries import Scope
from kvaudit.core.layout import SlotRanges
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.slot_out_of_range import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import World, fixture_f


def _wrong() -> World:
    world = fixture_f()
    world.request_of("A").slots[2] = 16
    world.request_of("B").slots[0] = -4
    return world


def test_slots_past_either_end_are_named_with_request_and_position() -> None:
    (finding,) = find(evidence_of(_wrong()))
    assert (finding.slots, finding.request_ids) == ([-4, 16], ["A", "B"])
    assert finding.evidence["examples"][0] == {
        "what": "slot",
        "slot": 16,
        "request_id": "A",
        "position": 2,
    }


def test_a_pool_without_such_slots_is_clean() -> None:
    assert not find(evidence_of(fixture_f()))


def test_past_kv_len_and_in_flight_are_not_judged() -> None:
    world = _wrong()
    world.request_of("A").kv_len = 2
    world.request_of("B").state = SequenceState.IN_FLIGHT
    assert not find(evidence_of(world))


def test_a_finished_sequence_is_judged() -> None:
    world = _wrong()
    world.request_of("B").state = SequenceState.FINISHED
    assert find(evidence_of(world))[0].slots == [-4, 16]


def test_a_plans_slots_and_predecessors_are_looked_at() -> None:
    world = fixture_f()
    (launch,) = world.plan(names=False).launches
    launch.plan.verify_slot_indices[3] = OUT_OF_TABLE_SLOT
    launch.plan.verify_prev_slot_indices[6] = 20
    (finding,) = find(evidence_of(world, sequences=None, launches=[launch]))
    assert finding.slots == [20, OUT_OF_TABLE_SLOT]
    assert [example["what"] for example in finding.evidence["examples"]] == ["slot", "predecessor"]
    assert finding.request_ids == []


def test_a_negative_predecessor_is_a_head() -> None:
    world = fixture_f()
    (launch,) = world.plan().launches
    launch.plan.verify_prev_slot_indices[0] = -7
    assert not find(evidence_of(world, launches=[launch]))


def test_a_disabled_plan_is_not_read() -> None:
    world = fixture_f()
    (launch,) = world.plan(enable=False).launches
    launch.plan.verify_slot_indices[:] = 99
    assert not find(evidence_of(world, launches=[launch]))


def test_the_scope_is_kept() -> None:
    scope = Scope(request_ids=frozenset("A"), slots=SlotRanges.parse("10-20"))
    (finding,) = find(evidence_of(_wrong(), scope=scope))
    assert finding.slots == [16]
    world = fixture_f()
    (launch,) = world.plan().launches
    launch.plan.verify_slot_indices[[1, 5]] = (16, 17)
    for name, slots in (("A", [16]), ("B", [17])):
        scope = Scope(request_ids=frozenset(name))
        (finding,) = find(evidence_of(world, sequences=None, launches=[launch], scope=scope))
        assert finding.slots == slots


def test_a_predecessor_is_in_scope_where_its_entry_is() -> None:
    world = fixture_f()
    (launch,) = world.plan(names=False).launches
    launch.plan.verify_prev_slot_indices[5] = 99
    seen = {"sequences": None, "launches": [launch]}
    (finding,) = find(evidence_of(world, **seen, scope=Scope(slots=SlotRanges.parse("7"))))
    assert finding.slots == [99]
    assert not find(evidence_of(world, **seen, scope=Scope(slots=SlotRanges.parse("99"))))


def test_entries_past_num_valid_are_not_read() -> None:
    from dataclasses import replace

    world = fixture_f()
    (launch,) = world.plan().launches
    plan = replace(launch.plan, num_valid=4)
    plan.verify_slot_indices[5] = 99
    assert not find(evidence_of(world, launches=[replace(launch, plan=plan)]))
    assert np.count_nonzero(plan.verify_slot_indices == 99) == 1
