from __future__ import annotations

from dataclasses import replace

from kvaudit.render.leg_table import leg_table
from kvaudit.render.text import text_lines
from kvaudit.render.verdict_line import not_checked
from tests.helpers import reports
from tests.helpers.comparing import LEG


def test_a_row_a_leg_says_what_was_matched_how_and_what_differs() -> None:
    assert [line.plain for line in leg_table([LEG])] == [
        "legs",
        "  leg                    matched  by                 columns  differing  unmatched",
        "  A->B (device -> host)        6  content + request        1          1  2 of A, 1 of B",
    ]


def test_a_leg_without_a_match_has_no_way() -> None:
    assert "  0  -  " in leg_table([replace(LEG, matched={})])[2].plain
    assert leg_table([]) == []


def test_words_of_files_are_printed_harmlessly() -> None:
    assert "\x1b" not in leg_table([replace(LEG, name="A->B (\x1b[2J -> host)")])[2].plain


def test_the_report_has_the_table_and_says_what_was_not_compared() -> None:
    report = replace(reports.CLEAN, legs=(LEG,))
    assert "legs" in [line.plain for line in text_lines(report)]
    sentences = [line.plain.strip() for line in not_checked(report)]
    assert "A->B (device -> host): something" in sentences
    assert not any("no expectation names them" in sentence for sentence in sentences)
