from __future__ import annotations

from dataclasses import replace

from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey
from kvaudit.render.finding_list import SEVERITY_STYLES, finding_list
from tests.helpers import reports
from tests.helpers.vocabulary import Vocabulary

[ALIAS] = reports.VIOLATIONS.findings


def shown(*findings, names_pool: bool = False) -> list[str]:
    return [text.plain for text in finding_list(findings, names_pool=names_pool)]


def test_no_findings_take_no_line() -> None:
    assert shown() == []


def test_a_finding_names_rule_slots_requests_and_what_settles_it() -> None:
    texts = shown(ALIAS)
    assert texts[1].startswith("  error  KV101 slot-alias: slot 4103 (page 256 +7)")
    assert "      slots        4103-4105,4110 (4 slots)" in texts
    assert "      requests     req-3, req-9" in texts
    assert "      or           KV203" in texts
    assert "      settled by   the allocator's owner column" in texts


def test_an_alternative_is_called_one() -> None:
    assert shown(replace(ALIAS, severity=None))[1].startswith("  alternative  KV101")


def test_every_severity_has_a_style() -> None:
    assert set(SEVERITY_STYLES) == {*Severity, None}


def test_an_empty_fact_takes_no_line() -> None:
    bare = replace(ALIAS, slots=(), request_ids=(), evidence={}, alternatives=(), settled_by="")
    assert len(shown(bare)) == 2


def test_the_pool_is_named_where_there_are_several() -> None:
    finding = replace(ALIAS, key=PoolKey(rank=3, step=7))
    assert "      pool         FULL.r3 step 7" in shown(finding, names_pool=True)
    assert not any(text.startswith("      pool") for text in shown(finding))


def test_examples_are_words_and_the_first_few_alone() -> None:
    example = ALIAS.evidence["examples"][0]
    shown_once = "      for example  slot 4103, owners (request_id req-3, position 39) (request_id "
    assert sum(text.startswith(shown_once) for text in shown(ALIAS)) == 1
    many = replace(ALIAS, evidence={"examples": [example] * 9})
    assert sum(text.startswith("      for example") for text in shown(many)) == 3


def test_columns_of_many_layers_are_folded() -> None:
    columns = [f"kv.{half}.{layer}" for layer in range(30) for half in "kv"]
    texts = shown(replace(ALIAS, evidence={"num_columns": 60, "columns": columns}))
    assert "      evidence    num_columns 60, columns kv.k.0-29 kv.v.0-29" in texts


def test_the_exact_count_of_slots_is_that_of_the_evidence() -> None:
    listed = replace(ALIAS, slots=tuple(range(0, 40, 2)), evidence={"num_slots": 5000})
    assert any("0,2,4,6,8,10,12,14,... (5,000 slots)" in text for text in shown(listed))


def test_findings_past_the_first_few_are_counted_by_rule() -> None:
    other = replace(ALIAS, rule="KV208", name="canary-bit-flip")
    texts = shown(*[ALIAS] * 10, *[other] * 1200)
    assert sum(text.startswith("  error  KV") for text in texts) == 8
    assert texts[-1] == "  and 1,202 more: 2 KV101 slot-alias, 1,200 KV208 canary-bit-flip"


def test_words_of_tokens_stand_in_examples_and_ranges() -> None:
    held = {"token": 262, "holds": "another token", "holds_token": 7042, "content_of": "r12"}
    stretch = {"slots": [7, 8], "tokens": [262, 314], "content_tokens": [7042, 314]}
    finding = replace(ALIAS, evidence={"examples": [{"slot": 7, **held}], "ranges": [stretch]})
    texts = [text.plain for text in finding_list([finding], names_pool=False, words=Vocabulary())]
    assert "      for example  slot 7 should hold ' the', holds ' Paris' of request r12" in texts
    assert "      range        slots 7-8 should read ' the is', read ' Paris is'" in texts
    assert (
        "      for example  slot 7 should hold token 262, holds token 7042 of request r12"
        in shown(finding)
    )
