from __future__ import annotations

from rich.text import Text

from kvaudit.render.lines import aligned, heading, line


def test_cells_stand_in_columns_and_nothing_trails() -> None:
    lines = aligned([("a", "bb", "c"), ("aaa", "b")], indent=1)
    assert [text.plain for text in lines] == ["  a    bb  c", "  aaa  b"]


def test_numbers_end_at_one_place() -> None:
    lines = aligned([("slots", "7"), ("index", "1,024")], indent=0, right=(1,))
    assert [text.plain for text in lines] == ["slots      7", "index  1,024"]


def test_wide_characters_take_two_places() -> None:
    lines = aligned([("漢字", "x"), ("abcd", "x")], indent=0)
    assert [text.plain for text in lines] == ["漢字  x", "abcd  x"]


def test_a_styled_cell_keeps_its_style() -> None:
    [text] = aligned([(Text("7", style="red"), "x")], indent=0)
    assert text.spans[0].style == "red"


def test_no_rows_are_no_lines() -> None:
    assert aligned([]) == []


def test_a_line_joins_plain_and_styled_parts() -> None:
    text = line(("CLEAN", "green"), "  all", indent=1)
    assert text.plain == "  CLEAN  all"
    assert heading("coverage").plain == "coverage"
