from __future__ import annotations

from kvaudit.core.rule_text import RuleText
from kvaudit.render.rule_text import rule_lines


def test_a_rule_is_its_meaning_then_evidence_causes_and_the_next_step() -> None:
    rule = RuleText(
        id="KV101",
        name="slot-alias",
        severity="error",
        meaning="two owners",
        evidence="sequences",
        causes=("a stale tail", "a race"),
        next_step="Look for the free.",
    )
    assert [line.plain for line in rule_lines(rule)] == [
        "KV101 slot-alias (error)",
        "  two owners",
        "  evidence       sequences",
        "  likely causes  a stale tail",
        "                 a race",
        "  next           Look for the free.",
    ]
