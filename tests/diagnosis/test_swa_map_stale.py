"""KV105: the full-to-window map inside live windows."""

from __future__ import annotations

import numpy as np

from kvaudit.core.entries import Scope
from kvaudit.core.finding import Finding
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.swa_map_stale import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f


def _found(changed: dict[int, int], **changes: object) -> list[Finding]:
    """Fixture F with an identity map, some of its entries replaced."""
    world = fixture_f()
    world.evidence["swa_slot"] = np.arange(16)
    for slot, target in changed.items():
        world.evidence["swa_slot"][slot] = target
    return find(evidence_of(world, **{"swa_window": 2, "swa_num_slots": 16, **changes}))


def test_a_right_map_is_clean() -> None:
    assert not _found({})


def test_a_tombstone_inside_a_live_window_is_stale() -> None:
    (finding,) = _found({5: 0})
    assert (finding.slots, finding.request_ids) == ([5], ["A"])
    assert "tombstone" in finding.summary


def test_a_tombstone_before_the_window_is_right() -> None:
    assert not _found({2: 0, 3: 0, 6: 0})


def test_without_a_known_window_no_tombstone_is_wrong() -> None:
    assert not _found({5: 0}, swa_window=None)


def test_a_target_outside_the_window_pool_is_stale() -> None:
    assert _found({5: 16})[0].slots == [5]
    assert _found({5: -2})[0].slots == [5]
    assert not _found({5: 16}, swa_num_slots=None)


def test_two_live_slots_on_one_target_are_stale() -> None:
    (finding,) = _found({5: 9})
    assert (finding.slots, finding.request_ids) == ([5, 9], ["A", "B"])
    assert finding.evidence["examples"][0]["swa_slot"] == 9


def test_a_slot_that_two_requests_share_is_no_double() -> None:
    world = fixture_f()
    world.requests.append(world.requests[0])
    world.evidence["swa_slot"] = np.arange(16)
    assert not find(evidence_of(world, swa_window=2))


def test_who_is_not_live_and_who_is_out_of_scope_is_not_judged() -> None:
    assert not _found({5: 0}, scope=Scope(request_ids=frozenset("B")))
    world = fixture_f()
    world.request_of("A").state = SequenceState.FINISHED
    world.evidence["swa_slot"] = np.where(np.arange(16) == 5, 0, np.arange(16))
    assert not find(evidence_of(world, swa_window=2))


def test_without_a_map_or_in_a_sparse_dump_nothing_is_guessed() -> None:
    world = fixture_f()
    assert not find(evidence_of(world, swa_window=2))
    world.evidence["swa_slot"] = np.where(np.arange(16) == 5, 0, np.arange(16))
    sparse = world.snapshot(slots=[2, 5])
    assert find(evidence_of(world, snapshot=sparse, swa_window=2))[0].slots == [5]
