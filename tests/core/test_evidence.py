"""Look-ups that rules share."""

from __future__ import annotations

import numpy as np

from kvaudit.core.entries import Scope
from kvaudit.core.layout import SlotRanges
from kvaudit.core.sequences import SequenceState
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f


def test_reserved_slots_and_those_outside_hold_no_sequence() -> None:
    slots = np.array([-1, 0, 1, 15, 16])
    assert evidence_of(fixture_f()).names_slot(slots).tolist() == [False, False, True, True, False]


def test_finished_sequences_are_judged_and_not_live() -> None:
    world = fixture_f()
    world.request_of("B").state = SequenceState.FINISHED
    evidence = evidence_of(world)
    assert evidence.live_slots is not None
    assert evidence.judged_slots is not None
    assert (len(evidence.live_slots.slots), len(evidence.judged_slots.slots)) == (4, 8)
    assert evidence_of(world, sequences=None).live_slots is None


def test_elements_are_in_scope_by_their_request_and_their_slot() -> None:
    scope = Scope(request_ids=frozenset("A"), slots=SlotRanges.parse("3-7"))
    evidence = evidence_of(fixture_f(), scope=scope)
    admitted = evidence.admits_elements(evidence.live_slots, np.arange(8))
    assert admitted.tolist() == [False, True, True, True, False, False, False, False]
