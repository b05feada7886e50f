"""KV106: a live slot on the free list."""

from __future__ import annotations

import numpy as np

from kvaudit.core.entries import Scope
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.live_slot_free import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import World, fixture_f


def _world(*free: int) -> World:
    world = fixture_f()
    states = np.full(16, "live", dtype=object)
    states[[0, 1, 10, 11, 12, 13, 14, 15]] = ["null", None, *["free"] * 6]
    states[list(free)] = "free"
    world.evidence["alloc.state"] = states
    return world


def test_a_live_slot_that_is_free_is_named_with_its_request() -> None:
    (finding,) = find(evidence_of(_world(7)))
    assert (finding.slots, finding.request_ids) == ([7], ["B"])
    assert finding.evidence["examples"] == [{"slot": 7, "request_id": "B", "position": 1}]


def test_free_slots_that_nobody_holds_are_right() -> None:
    assert not find(evidence_of(_world()))


def test_slots_past_kv_len_of_the_finished_and_out_of_scope_are_not_judged() -> None:
    world = _world(9)
    assert not find(evidence_of(world, scope=Scope(request_ids=frozenset("A"))))
    world.request_of("B").kv_len = 3
    assert not find(evidence_of(world))
    world = _world(9)
    world.request_of("B").state = SequenceState.FINISHED
    assert not find(evidence_of(world))


def test_without_the_allocators_state_nothing_is_guessed() -> None:
    assert not find(evidence_of(fixture_f()))
    world = _world(7)
    assert not find(evidence_of(world, sequences=None))
    assert not find(evidence_of(world, snapshot=world.snapshot(slots=[])))
