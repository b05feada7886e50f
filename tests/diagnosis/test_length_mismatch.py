"""KV104: kv_len past the slots or past the tokens."""

from __future__ import annotations

import pytest

from kvaudit.core.entries import Scope
from kvaudit.core.sequences import SequenceState
from kvaudit.diagnosis.length_mismatch import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f


def test_kv_len_past_the_slots_and_the_tokens_is_named_with_both() -> None:
    world = fixture_f()
    world.request_of("B").kv_len = 5
    (finding,) = find(evidence_of(world))
    assert finding.request_ids == ["B"]
    assert finding.evidence["examples"] == [
        {"request_id": "B", "kv_len": 5, "slots_end": 4, "num_tokens": 4}
    ]
    assert "slots end at position 4" in finding.summary
    assert "4 tokens" in finding.summary


@pytest.mark.parametrize(("more", "word"), [("slots", "tokens"), ("tokens", "slots")])
def test_either_alone_is_enough(more: str, word: str) -> None:
    world = fixture_f()
    world.request_of("B").kv_len = 5
    getattr(world.request_of("B"), more).append(10)
    (finding,) = find(evidence_of(world))
    assert word in finding.summary


def test_more_tokens_or_slots_than_kv_len_are_fine() -> None:
    world = fixture_f()
    world.request_of("A").tokens.append(15)
    world.request_of("B").slots += [10, 11]
    assert not find(evidence_of(world))


def test_slots_count_from_the_start_position() -> None:
    world = fixture_f()
    request = world.request_of("B")
    request.slots, request.start_position = request.slots[2:], 2
    assert not find(evidence_of(world))
    request.slots.pop()
    assert find(evidence_of(world))[0].evidence["examples"][0]["slots_end"] == 3


def test_in_flight_and_out_of_scope_are_not_judged() -> None:
    world = fixture_f()
    world.request_of("B").kv_len = 9
    assert not find(evidence_of(world, scope=Scope(request_ids=frozenset("A"))))
    world.request_of("B").state = SequenceState.IN_FLIGHT
    assert not find(evidence_of(world))
    assert not find(evidence_of(world, sequences=None))
