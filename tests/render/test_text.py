"""Golden text at width 100 without colour, from literal Reports."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from kvaudit.render.text import print_lines, text_lines, write_text, write_verdict
from tests.helpers import reports

GOLDEN = Path(__file__).parent / "golden"


def written(report, **style) -> str:
    stream = io.StringIO()
    write_text(report, stream, **style)
    return stream.getvalue()


@pytest.mark.parametrize("name", reports.ALL)
def test_text_equals_the_golden_file_at_width_100(name: str) -> None:
    assert written(reports.ALL[name], width=100) == (GOLDEN / f"{name}.txt").read_text()


def test_every_golden_file_belongs_to_a_report() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(reports.ALL)


def test_a_line_is_never_cut_where_there_is_no_terminal() -> None:
    long = "r" * 5000
    row = replace(reports.VIOLATIONS.violations[0], request_ids=(long,))
    text = written(replace(reports.VIOLATIONS, violations=(row,)))
    assert long in text
    assert "…" not in text


def test_a_terminal_folds_long_lines_and_loses_nothing() -> None:
    whole = "".join(written(reports.VIOLATIONS).split())
    folded = written(reports.VIOLATIONS, width=40)
    assert "".join(folded.split()) == whole
    assert max(len(text) for text in folded.splitlines()) <= 40


@pytest.mark.parametrize("width", [None, 100])
def test_plain_text_holds_no_escape_sequence(width: int | None) -> None:
    assert "\x1b" not in written(reports.VIOLATIONS, width=width)


def test_styled_text_says_the_same_in_colour() -> None:
    styled = written(reports.VIOLATIONS, styled=True)
    assert "\x1b[1;31mVIOLATIONS\x1b[0m" in styled


def test_the_verdict_is_the_first_line_and_the_only_one_when_asked_for() -> None:
    stream = io.StringIO()
    write_verdict(reports.CLEAN, stream)
    assert stream.getvalue() == (
        "CLEAN  index 100% · records 100% · bytes - (not stamped) · identity - (no bytes)\n"
    )
    assert written(reports.CLEAN).startswith(stream.getvalue())


def test_what_a_file_says_cannot_command_the_terminal() -> None:
    row = replace(reports.VIOLATIONS.violations[0], request_ids=("a\x1b[2J\nb",))
    text = written(replace(reports.VIOLATIONS, violations=(row,)))
    assert "\x1b" not in text
    assert "request a\\x1b[2J\\nb" in text


def test_square_brackets_are_no_markup() -> None:
    row = replace(reports.VIOLATIONS.violations[0], request_ids=("[bold]x[/bold]",))
    assert "[bold]x[/bold]" in written(replace(reports.VIOLATIONS, violations=(row,)))


def test_sections_are_parted_by_one_empty_line() -> None:
    plain = [text.plain for text in text_lines(reports.VIOLATIONS)]
    assert plain[-1] == "self-check passed · 0.50 s · 1.0 GB of KV at 2.00 GB/s"
    titles = [plain[index + 1].split("  ")[0] for index, text in enumerate(plain) if not text]
    assert titles[:-1] == ["not checked", "findings", "coverage", "launches", "violations"]
    assert titles[-1].startswith("backend")


def test_lines_end_where_their_words_end() -> None:
    stream = io.StringIO()
    print_lines(text_lines(reports.VIOLATIONS), stream)
    assert all(text == text.rstrip() for text in stream.getvalue().splitlines())
