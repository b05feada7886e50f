"""KV107: freed twice, or free and owned at once."""

from __future__ import annotations

import numpy as np

from kvaudit.core.entries import Scope
from kvaudit.core.layout import SlotRanges
from kvaudit.diagnosis.double_free import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import World, fixture_f


def _world(
    *, free: tuple[int, ...] = (), owned: tuple[int, ...] = (), negative: tuple[int, ...] = ()
) -> World:
    world = fixture_f()
    states, owners = np.full(16, None, dtype=object), np.full(16, None, dtype=object)
    states[list(free)] = "free"
    owners[list(owned)] = "old"
    refs = np.zeros(16, dtype=np.int32)
    refs[list(negative)] = -1
    world.evidence |= {"alloc.state": states, "alloc.owner": owners, "alloc.ref": refs}
    return world


def test_a_free_slot_with_an_owner_is_named_with_it() -> None:
    (finding,) = find(evidence_of(_world(free=(12, 13), owned=(12, 14))))
    assert (finding.slots, finding.request_ids) == ([12], ["old"])
    assert "owned by old" in finding.summary


def test_a_negative_reference_count_is_a_double_free() -> None:
    (finding,) = find(evidence_of(_world(negative=(13,))))
    assert finding.slots == [13]
    assert "freed more often" in finding.summary


def test_a_free_slot_that_a_live_sequence_holds_is_kv106_alone() -> None:
    assert not find(evidence_of(_world(free=(7,), owned=(7,))))


def test_the_scope_is_kept() -> None:
    world = _world(free=(12,), owned=(12,))
    assert find(evidence_of(world, scope=Scope(request_ids=frozenset({"old"}))))
    assert not find(evidence_of(world, scope=Scope(request_ids=frozenset("A"))))
    assert not find(evidence_of(world, scope=Scope(slots=SlotRanges.parse("13"))))
    del world.evidence["alloc.owner"]
    world.evidence["alloc.ref"][3] = -2
    assert not find(evidence_of(world, scope=Scope(request_ids=frozenset("A"))))


def test_a_right_allocator_and_none_at_all_are_clean() -> None:
    assert not find(evidence_of(_world(free=(12,), owned=(6, 7))))
    assert not find(evidence_of(fixture_f()))
