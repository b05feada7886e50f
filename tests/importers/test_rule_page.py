from __future__ import annotations

import pytest

from kvaudit.diagnosis.registry import RULES
from kvaudit.importers.rule_page import parse_rules, rule_texts

MEANING = "| KV101 | slot-alias | error | two owners of `one` slot | sequences, `alloc.ref` |"
ADVICE = "| KV101 | a page twice in a free list; a stale tail | Look for the free. Then again. |"


def test_a_rule_is_its_two_rows_without_markup() -> None:
    text = parse_rules(f"# Rules\n\n{MEANING}\n\nwords | more\n\n{ADVICE}\n")["KV101"]
    assert text.to_dict() == {
        "rule": "KV101",
        "name": "slot-alias",
        "severity": "error",
        "meaning": "two owners of one slot",
        "evidence": "sequences, alloc.ref",
        "causes": ["a page twice in a free list", "a stale tail"],
        "next_step": "Look for the free. Then again.",
    }


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(MEANING, id="no advice"),
        pytest.param(ADVICE, id="no meaning"),
        pytest.param(f"{MEANING}\n{MEANING}\n{ADVICE}", id="two meanings"),
        pytest.param(f"{MEANING}\n{ADVICE}\n{ADVICE}", id="two pieces of advice"),
        pytest.param(f"{MEANING} | more |\n{ADVICE}", id="another cell"),
    ],
)
def test_a_page_with_half_a_rule_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="KV101"):
        parse_rules(page)


def test_every_rule_of_the_program_has_its_words_and_no_other() -> None:
    texts = rule_texts()
    assert sorted(texts) == sorted({rule.id for rule in RULES})
    for rule in RULES:
        text = texts[rule.id]
        assert (text.name, text.severity) == (rule.name, str(rule.severity))
        assert all((text.meaning, text.evidence, text.next_step, *text.causes))
