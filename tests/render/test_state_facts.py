"""A ring and its counters, as `show` prints them."""

from __future__ import annotations

import json

from kvaudit.core.layout import SlotRanges
from kvaudit.render.state_facts import ring_rows_of, state_facts
from tests.helpers.arrow_files import canary_state

FIRST = {
    "slot": 5,
    "tag": "TAIL_K_FULL",
    "position": 1,
    "token": 22,
    "expected_token": -1,
    "chain_hash": "0xfffffffffffffffc",
    "expected_aux": "0x0000000000000006",
    "reasons": ["verify_chain_hash"],
}


def test_the_ring_is_a_row_a_violation_in_its_order() -> None:
    facts = state_facts(canary_state(path="a.state.arrow"))
    assert facts["ring"] == [
        FIRST,
        {
            "slot": 7,
            "tag": "SWEEP_K_SWA",
            "position": 3,
            "token": 31,
            "expected_token": 32,
            "chain_hash": "0x0000000000000009",
            "expected_aux": "0x0000000000000004",
            "reasons": ["write_token", "write_position"],
        },
    ]
    assert (facts["violations"], facts["ring_capacity"], facts["lost"]) == (3, 2, 1)
    assert (facts["file"], facts["kind"]) == ("a.state.arrow", "state")
    assert json.loads(json.dumps(facts)) == facts


def test_counters_stand_by_tag() -> None:
    assert state_facts(canary_state())["tags"] == {
        "TAIL_K_FULL": "300 launches, 4,800 slots, 1 violation in the ring",
        "TAIL_V_FULL": "0 launches, 0 slots, 0 violations in the ring",
        "SWEEP_K_SWA": "4 launches, 0 slots, 1 violation in the ring, 1 sweep, not active",
    }


def test_a_tag_that_is_none_of_the_twelve_is_shown_by_its_number() -> None:
    ring = canary_state().ring.copy()
    ring[0, 0] = 40
    facts = state_facts(canary_state(ring=ring))
    assert "40" in facts["ring"][0]["tag"]
    assert facts["tags"]["TAIL_K_FULL"].endswith("0 violations in the ring")


def test_rows_of_given_slots_alone() -> None:
    assert list(ring_rows_of(canary_state(), SlotRanges.parse("0-6"))) == [FIRST]
