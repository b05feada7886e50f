from __future__ import annotations

from dataclasses import replace

from kvaudit.core.comparison import CompareOptions
from kvaudit.core.comparison_choices import MatchBy
from tests.helpers.comparing import LEG


def test_a_leg_counts_its_matched_slots_however_they_were_matched() -> None:
    assert LEG.num_matched == 6


def test_a_leg_has_the_letters_of_its_dumps_whatever_else_its_name_says() -> None:
    assert replace(LEG, name="B->C (device -> host)").letters == ("B", "C")
    assert replace(LEG, name="A->B").letters == ("A", "B")


def test_the_document_of_a_leg_names_every_way_to_match() -> None:
    document = LEG.to_dict()
    assert document["matched"] == {"content": 5, "request": 1, "slot": 0}
    assert document["kind"] == "transfer"
    assert document["columns_left_out"] == [{"column": "kv.v.0", "why": "A alone has it"}]


def test_nothing_is_tolerated_unless_it_is_asked_for() -> None:
    options = CompareOptions()
    assert options.tolerance is None
    assert options.match is MatchBy.AUTO
