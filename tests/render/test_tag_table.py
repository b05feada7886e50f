from __future__ import annotations

from kvaudit.render.tag_table import tag_table
from tests.helpers import reports


def test_every_launch_tag_has_its_counters() -> None:
    rows = [text.plain.split() for text in tag_table(reports.VIOLATIONS.tags)[2:]]
    assert rows == [
        ["TAIL_K_FULL", "1", "1,024", "1,024", "2"],
        ["TAIL_V_FULL", "1", "1,024", "1,024", "0"],
    ]


def test_no_launch_is_no_table() -> None:
    assert tag_table(()) == []
