from __future__ import annotations

from dataclasses import replace

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.blame_report import Relation
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.core.slot_readers import SlotClaim, SlotReader
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation
from kvaudit.runner.blame.related_findings import related_findings

CLAIM = SlotClaim(
    reader=SlotReader(request_id="B", position=2),
    source="sequences",
    token=23,
    stored_position=2,
    prev_slot=7,
    is_head=False,
)
BROKEN = Violation(
    tag=LaunchTag.TAIL_K_FULL,
    key=PoolKey(),
    entry=2,
    slot=8,
    reasons=FailReason.VERIFY_CHAIN_HASH_MISMATCH,
)


def _finding(rule: str, *, slots: tuple[int, ...] = (), requests: tuple[str, ...] = ()) -> Finding:
    return Finding(
        rule=rule,
        name="some",
        severity=Severity.ERROR,
        summary="what",
        slots=slots,
        request_ids=requests,
        key=PoolKey(),
    )


def _relations(*findings: Finding, **facts: object) -> list[tuple[str, Relation]]:
    given = {"claims": [CLAIM], "failed": [], **facts}
    found = related_findings(findings, 8, **given)
    return [(each.finding.rule, each.relation) for each in found]


def test_those_that_name_the_slot_come_first_and_those_of_others_are_left_out() -> None:
    assert _relations(
        _finding("KV1", requests=("B",)),
        _finding("KV2", slots=(3,), requests=("A",)),
        _finding("KV3", slots=(8, 9), requests=("B",)),
    ) == [("KV3", Relation.NAMES), ("KV1", Relation.TAINTS)]


def test_a_broken_chain_follows_from_the_slot_before() -> None:
    root = _finding("KV203", slots=(7,), requests=("B",))
    assert _relations(root, failed=[BROKEN]) == [("KV203", Relation.BEFORE)]
    assert _relations(root) == [("KV203", Relation.TAINTS)]
    token = replace(BROKEN, reasons=FailReason.VERIFY_TOKEN_MISMATCH)
    assert _relations(root, failed=[token]) == [("KV203", Relation.TAINTS)]


def test_who_is_not_judged_is_not_tainted() -> None:
    claim = replace(CLAIM, not_judged="in flight")
    assert _relations(_finding("KV203", slots=(7,), requests=("B",)), claims=[claim]) == []


def test_a_request_without_a_name_is_nobodys() -> None:
    claim = replace(CLAIM, reader=SlotReader(request_id=None, position=2))
    assert _relations(_finding("KV203", slots=(7,)), claims=[claim]) == []
