from __future__ import annotations

import numpy as np

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.identity_facts import (
    identity_facts,
    name_of,
    names_of,
    ranges_of,
    request_of,
    tainting_finding,
)
from kvaudit.diagnosis.rule import Rule
from tests.helpers.identity_findings import judged_evidence
from tests.helpers.layer0_worlds import fixture_f

RULE = Rule(id="KV210", name="content-not-of-token", severity=Severity.ERROR)


def test_a_finding_names_who_reads_the_rows_through_a_shared_prefix_too() -> None:
    evidence = judged_evidence(fixture_f().request("C", [11, 12, 77], [2, 3, 10]))
    finding = tainting_finding(
        RULE, evidence, "words", rows=np.array([3]), facts={"cause": "x"}, settled_by="more"
    )
    assert (finding.slots, finding.request_ids) == ([3], ["A", "C"])
    assert finding.evidence == {"num_slots": 1, "cause": "x"}
    assert finding.settled_by == "more"


def test_what_it_was_judged_by_stands_beside_the_distances() -> None:
    evidence = judged_evidence(fixture_f())
    assert evidence.identity is not None
    facts = identity_facts(evidence.identity, np.array([0.5, 1.25, np.inf]))
    assert facts["judged_by"] == "model"
    assert facts["distances"] == [0.5, 1.25]
    assert facts["threshold"] == 0.05
    of_position = identity_facts(evidence.identity, np.array([np.inf]), of_position=True)
    assert "distances" not in of_position


def test_ranges_break_where_the_sequence_or_the_shift_does() -> None:
    evidence = judged_evidence(fixture_f())
    claims = np.array([0, 1, 2, 4, 5])
    homes = np.array([4, 5, -1, 0, 1])
    found = ranges_of(evidence, claims, homes)
    assert [(each["request_id"], each["positions"], each["slots"]) for each in found] == [
        ("A", [0, 1], [2, 3]),
        ("A", [2, 2], [4, 4]),
        ("B", [0, 1], [6, 7]),
    ]
    assert found[0]["tokens"] == [11, 12]
    assert found[0]["content_of"] == "B"
    assert found[0]["content_positions"] == [0, 1]
    assert found[0]["content_tokens"] == [21, 22]
    assert "content_of" not in found[1]


def test_requests_are_named_as_people_and_as_programs_read_them() -> None:
    evidence = judged_evidence(fixture_f())
    assert (name_of(evidence, 5), request_of(evidence, 5)) == ("B", "request B")
    assert names_of(evidence, np.array([6, 1, 0])) == ["B", "A"]
