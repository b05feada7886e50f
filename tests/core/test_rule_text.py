from __future__ import annotations

from kvaudit.core.rule_text import RuleText


def test_a_rule_in_words_is_json_values() -> None:
    text = RuleText(
        id="KV101",
        name="slot-alias",
        severity="error",
        meaning="two owners",
        evidence="sequences",
        causes=("a stale tail", "a race"),
        next_step="Look for the free.",
    )
    assert text.to_dict()["causes"] == ["a stale tail", "a race"]
    assert text.to_dict()["rule"] == "KV101"
