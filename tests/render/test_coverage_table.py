from __future__ import annotations

from kvaudit.core.coverage import Coverage, Family
from kvaudit.render.coverage_table import coverage_table
from tests.helpers import reports


def test_every_family_has_a_row_and_so_have_the_slots() -> None:
    rows = [text.plain.split() for text in coverage_table(reports.PARTLY)[2:]]
    assert rows == [
        ["index", "1,024", "1,024", "100%"],
        ["records", "20,001", "20,000", "99.99%"],
        ["bytes", "30,720", "30,720", "100%"],
        ["identity", "0", "0", "-"],
        ["slots", "1,024", "1,024", "of", "4,096"],
    ]


def test_a_run_that_planned_nothing_still_has_its_table() -> None:
    names = [text.plain.split()[0] for text in coverage_table(Coverage())]
    assert names == ["coverage", "family", *Family, "slots"]
