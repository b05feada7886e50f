from __future__ import annotations

from dataclasses import replace

from kvaudit.core.chain_entries import ChainCounters
from kvaudit.core.coverage import Coverage, Family, FamilyCoverage
from kvaudit.core.report import InputFile
from kvaudit.errors import FileCorrupt
from kvaudit.render.verdict_line import not_checked, scope_label, verdict_line
from tests.helpers import reports


def test_the_scope_names_every_family_with_a_reason_for_each_gap() -> None:
    assert scope_label(reports.PARTLY) == (
        "index 100% · records 99.99% · bytes 100% · identity - (not asked for)"
    )


def test_a_scope_of_its_own_stands_behind_the_percentage() -> None:
    coverage = Coverage(
        families={Family.BYTES: FamilyCoverage(planned=2, checked=2, scope="(layer 17)")}
    )
    assert "bytes 100% (layer 17)" in scope_label(coverage)


def test_what_a_family_rests_on_stands_in_place_of_the_percentage() -> None:
    records = FamilyCoverage(planned=2, checked=2, basis="by chain (no expectations)")
    coverage = Coverage(families={Family.RECORDS: records})
    assert " · records by chain (no expectations) · " in scope_label(coverage)


def test_an_audit_by_chains_says_what_it_cannot_see() -> None:
    chains = (
        ChainCounters(
            tag="TAIL_K_FULL", records=9, heads=1, orphans=1, forks=0, chains=3, duplicates=2
        ),
        ChainCounters(
            tag="TAIL_V_FULL", records=9, heads=1, orphans=0, forks=0, chains=3, duplicates=0
        ),
    )
    records = FamilyCoverage(planned=18, checked=18, details={"by_chain": 18})
    coverage = Coverage(families={Family.RECORDS: records}, slots_pool=16, slots_planned=9)
    report = replace(reports.CLEAN, coverage=coverage, chains=chains)
    _, foreign, lost, *lines = [text.plain.strip() for text in not_checked(report)]
    for words in ("another request's chain", "a wrong token", "pages that changed places"):
        assert words in foreign
    assert "without a predecessor, and that is no violation" in lost
    unlinked, unplanned = lines
    assert unlinked == (
        "TAIL_K_FULL: 1 record follows none in the dump; 2 records are held by a lower slot too: "
        "shared content, or a copy in a foreign place"
    )
    assert unplanned == (
        "7 of 16 slots: no expectation names them, and no record or stamp in them is judged"
    )


def test_a_family_of_which_all_is_excused_has_no_percentage() -> None:
    coverage = Coverage(
        families={Family.RECORDS: FamilyCoverage(planned=4, checked=0, excused=4)},
        absent={Family.RECORDS: "not stamped"},
    )
    assert "records - (not stamped)" in scope_label(coverage)


def test_the_verdict_is_in_capitals() -> None:
    assert verdict_line(reports.INCOMPLETE).plain.startswith("INCOMPLETE  index - (")


def test_nothing_stands_under_not_checked_when_all_was() -> None:
    full = {family: FamilyCoverage(planned=4, checked=4) for family in Family}
    report = replace(reports.CLEAN, coverage=Coverage(families=full, slots_pool=4, slots_planned=4))
    assert not_checked(report) == []


def test_not_checked_counts_the_causes() -> None:
    lines = [text.plain.strip() for text in not_checked(reports.VIOLATIONS)]
    assert "records: 1 of 20,001 not checked: 1 not in snapshot" in lines
    assert "1 launch disabled by the plan" in lines
    assert "3,072 of 4,096 slots: no expectation names them" in lines


def test_a_pool_left_out_is_named_once_with_the_reason() -> None:
    error = FileCorrupt("its digest differs", path="b.snapshot.arrow", column="kv.k.0")
    left_out = InputFile(
        path="b.snapshot.arrow",
        kind="snapshot",
        notes=(error.left_out_note("b.snapshot.arrow"), "file not checksummed"),
    )
    lost = InputFile(
        path="c.snapshot.arrow", kind="snapshot", notes=(error.left_out_note("c.snapshot.arrow"),)
    )
    report = replace(
        reports.INCOMPLETE,
        inputs=(left_out, lost),
        incomplete_reasons=(f"not audited: {error}",),
        left_out=(error,),
    )
    lines = [text.plain.strip() for text in not_checked(report)]
    assert [text for text in lines if "snapshot.arrow" in text] == [
        "not audited: b.snapshot.arrow, column kv.k.0: its digest differs",
        "b.snapshot.arrow: file not checksummed",
        "c.snapshot.arrow: not audited: b.snapshot.arrow, column kv.k.0: its digest differs",
    ]


def said(**details: int) -> list[str]:
    """What is said of a records family of 11 entries, of which 3 are padding."""
    missed = details.get("not_in_snapshot", 0)
    records = FamilyCoverage(planned=14, checked=11 - missed, excused=3, details=details)
    report = replace(reports.CLEAN, coverage=Coverage(families={Family.RECORDS: records}))
    return [text.plain.strip() for text in not_checked(report)[1:]]


def test_only_what_lowers_the_coverage_is_named_as_its_cause() -> None:
    assert said(skipped_padding=3, predecessor_unreachable=2, not_in_snapshot=1) == [
        "records: 1 of 11 not checked: 1 not in snapshot",
        "records: 3 skipped padding, 2 predecessor unreachable",
    ]


def test_what_lowers_nothing_is_counted_by_itself() -> None:
    assert said(skipped_padding=3, not_in_snapshot=0) == ["records: 3 skipped padding"]


def test_a_sentence_is_said_once() -> None:
    report = replace(reports.INCOMPLETE, incomplete_reasons=("pass --expect FILE",) * 2)
    lines = [text.plain.strip() for text in not_checked(report)]
    assert lines.count("pass --expect FILE") == 1


def test_a_clean_report_says_what_a_family_without_a_stamp_would_have_found() -> None:
    absent = {Family.RECORDS: "no canary", Family.BYTES: "not stamped"}
    families = {Family.INDEX: FamilyCoverage(planned=4, checked=4)}
    unstamped = Coverage(families=families, absent=absent, slots_pool=4, slots_planned=4)
    lines = not_checked(replace(reports.CLEAN, coverage=unstamped))
    assert [text.plain.strip() for text in lines] == [
        "not checked",
        "records (no canary): a slot written for another request or position would not show",
        "bytes (not stamped): overwritten or damaged KV would not show",
    ]


def test_an_incomplete_report_does_not_say_twice_what_it_lacks() -> None:
    assert not any("would not show" in text.plain for text in not_checked(reports.INCOMPLETE))


def _identity_report(**details: int):
    counts = {"by_repetition": 6, "positions_checked": 4, **details}
    identity = FamilyCoverage(planned=9, checked=6, details=counts, scope="(by repetition)")
    absent = {Family.RECORDS: "no canary", Family.BYTES: "not stamped"}
    coverage = Coverage(families={Family.IDENTITY: identity}, absent=absent)
    return replace(reports.CLEAN, coverage=coverage)


def test_slots_of_identity_that_were_not_judged_say_why() -> None:
    report = _identity_report(token_seen_once=2, no_majority=1, extra_key=0, positions_open=0)
    sentences = [text.plain.strip() for text in not_checked(report)]
    assert "identity: 3 of 9 not checked: 2 token seen once, 1 no majority" in sentences
    assert scope_label(report.coverage).endswith("identity 66.66% (by repetition)")
    assert not any("by repetition" in text or "positions" in text for text in sentences)


def test_slots_that_contradict_each_other_are_said_though_nobody_is_accused() -> None:
    fault = "identity: 2 slots of tokens whose slots disagree: some may be wrong, and a table would"
    split = [text.plain for text in not_checked(_identity_report(no_majority=2))]
    assert sum(fault in text for text in split) == 1
    whole = [text.plain for text in not_checked(_identity_report(no_majority=0))]
    assert not any("disagree" in text for text in whole)


def test_slots_whose_k_told_nothing_are_counted() -> None:
    sentences = [text.plain.strip() for text in not_checked(_identity_report(positions_open=2))]
    assert (
        "identity: 2 slots judged by V alone: a row rotated for another position would not show"
    ) in sentences


def test_beside_identity_no_canary_leaves_the_other_layers_open_alone() -> None:
    sentences = [text.plain.strip() for text in not_checked(_identity_report())]
    assert "bytes (not stamped): overwritten or damaged KV past layer 0 would not show" in sentences
    assert not any(text.startswith("records") for text in sentences)
