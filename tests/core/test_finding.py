from __future__ import annotations

import json

from kvaudit.core.finding import Finding, Severity


def test_severities_weigh_note_warning_error() -> None:
    assert [Severity.NOTE.rank, Severity.WARNING.rank, Severity.ERROR.rank] == [0, 1, 2]


def test_a_finding_is_a_document() -> None:
    finding = Finding(
        rule="KV101",
        name="slot-alias",
        severity=None,
        summary="two owners",
        slots=(4, 5),
        request_ids=("A",),
        pool="FULL",
        alternatives=("KV203",),
    )
    assert json.loads(json.dumps(finding.to_dict())) == {
        "rule": "KV101",
        "name": "slot-alias",
        "severity": None,
        "summary": "two owners",
        "slots": [4, 5],
        "request_ids": ["A"],
        "pool": "FULL",
        "rank": None,
        "evidence": {},
        "alternatives": ["KV203"],
        "settled_by": "",
    }
