from __future__ import annotations

from dataclasses import replace

from kvaudit.core.saved_report import SavedFinding, SavedReport
from kvaudit.importers.rule_page import rule_texts
from kvaudit.render.saved_report import saved_report_document, saved_report_lines

FINDING = SavedFinding(
    rule="KV101",
    name="slot-alias",
    severity="error",
    summary="slot 4\x1b[31m has two owners",
    request_ids=["A", "B"],
    alternatives=["KV203"],
    settled_by="the allocator",
)
REPORT = SavedReport(
    verdict="violations",
    exit_code=1,
    coverage={"index": (4, 4), "records": (1, 2), "bytes": (0, 0)},
    num_violations=3,
    findings=[FINDING],
)
RULES = rule_texts()


def _text(report: SavedReport) -> str:
    return "\n".join(line.plain for line in saved_report_lines(report, RULES))


def test_each_finding_has_its_rules_words_and_the_next_step() -> None:
    text = _text(REPORT)
    assert text.startswith(
        "VIOLATIONS · 3 violations\n  covered: index 100% · records 50% · bytes -\n\n"
        "error  KV101 slot-alias: slot 4\\x1b[31m has two owners\n"
    )
    for words in (RULES["KV101"].meaning, RULES["KV101"].next_step, "A, B", "the allocator"):
        assert words in text


def test_a_rule_of_a_newer_version_is_shown_without_words() -> None:
    report = replace(REPORT, findings=[replace(FINDING, rule="KV999")])
    assert "does not know the rule" in _text(report)
    assert saved_report_document(report, RULES)["findings"][0]["explained"] is None


def test_past_a_screen_findings_are_counted() -> None:
    text = _text(replace(REPORT, findings=[FINDING] * 20))
    assert text.endswith("and 12 more: KV101 slot-alias")
    assert (
        len(saved_report_document(replace(REPORT, findings=[FINDING] * 20), RULES)["findings"])
        == 20
    )


def test_a_report_that_covers_nothing_says_why() -> None:
    report = replace(REPORT, coverage={}, findings=[], incomplete_reasons=["nothing was planned"])
    assert "covered: nothing\n  nothing was planned" in _text(report)


def test_the_document_has_the_rule_beside_each_finding() -> None:
    document = saved_report_document(REPORT, RULES)
    assert document["schema"] == "kvaudit.explained/1"
    assert document["findings"][0]["explained"] == RULES["KV101"].to_dict()
