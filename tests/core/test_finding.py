"""Findings as JSON."""

from __future__ import annotations

from kvaudit.core.finding import Finding, RuleGroup, group_of
from kvaudit.core.snapshot import PoolKey


def test_an_alternative_has_no_severity() -> None:
    finding = Finding(
        rule="KV202", name="foreign-content", severity=None, summary="x", key=PoolKey(step=4)
    )
    document = finding.to_dict()
    assert document["severity"] is None
    assert list(document) == [
        "rule", "name", "severity", "summary", "slots", "request_ids", "instance", "group",
        "pool", "tier", "rank", "step", "evidence", "alternatives", "settled_by",
    ]  # fmt: skip


def test_the_first_digit_of_a_rule_says_what_it_looks_at() -> None:
    assert [group_of(rule) for rule in ("KV004", "KV101", "KV210")] == [
        RuleGroup.COVERAGE,
        RuleGroup.INDEX,
        RuleGroup.IDENTITY,
    ]
