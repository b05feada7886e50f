"""The form of findings."""

from __future__ import annotations

import numpy as np

from kvaudit.core.finding import MAX_LISTED
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import DigestGrain
from kvaudit.diagnosis.rule import (
    MAX_EXAMPLES,
    Hits,
    Rule,
    and_more,
    at,
    content_at,
    counted,
    hashes_counted,
    held_examples,
)
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import fixture_f

RULE = Rule(id="KV999", name="some-rule", severity=Severity.ERROR)


def test_long_lists_are_cut_and_counted() -> None:
    slots = np.arange(3 * MAX_LISTED)[::-1]
    names = [f"r{idx}" for idx in range(2 * MAX_LISTED)]
    finding = RULE.finding(
        evidence_of(fixture_f()), "much", hits=Hits(slots=slots, request_ids=names)
    )
    assert len(finding.slots) == 3 * MAX_LISTED
    assert finding.to_dict()["slots"] == list(range(MAX_LISTED))
    assert list(finding.request_ids) == names[:MAX_LISTED]
    assert finding.evidence["num_slots"] == 3 * MAX_LISTED


def test_repeats_are_listed_once_in_order() -> None:
    hits = Hits(slots=np.array([5, 3, 5]), request_ids=["B", "A", "B"])
    finding = RULE.finding(evidence_of(fixture_f()), "twice", hits=hits)
    assert (finding.slots, finding.request_ids) == ([3, 5], ["B", "A"])


def test_a_finding_is_json() -> None:
    import json

    hits = Hits(slots=np.array([5]), examples=({"slot": 5},))
    finding = RULE.finding(evidence_of(fixture_f()), "one", hits=hits, facts={"step": None})
    assert json.loads(json.dumps(finding.to_dict()))["evidence"] == {
        "num_slots": 1,
        "step": None,
        "examples": [{"slot": 5}],
    }


def test_places_and_counts_read_as_words() -> None:
    assert at(7, evidence_of(fixture_f())) == "slot 7 (page 3 +1)"
    assert (and_more(1, "slot"), and_more(1200, "slot")) == ("", "; 1,200 slots in all")
    assert counted(1, "slot") == "1 slot"


def test_examples_of_held_slots_are_the_first() -> None:
    held = evidence_of(fixture_f()).live_slots
    examples = held_examples(held, np.arange(1, 8))
    assert examples[0] == {"slot": 3, "request_id": "A", "position": 1}
    assert len(held_examples(held, np.repeat(2, 20))) == MAX_EXAMPLES


def test_what_a_hash_is_of_is_a_slot_or_a_page() -> None:
    world = fixture_f(canary=())
    of_slots = evidence_of(world)
    paged = world.snapshot(digests_only=True, digest_grain=DigestGrain.PAGE)
    of_pages = evidence_of(world, snapshot=paged)
    assert (content_at(7, of_slots), hashes_counted(2, of_slots)) == (
        "slot 7 (page 3 +1)",
        "2 slots",
    )
    assert (content_at(7, of_pages), hashes_counted(1, of_pages)) == ("page 3", "1 page")
