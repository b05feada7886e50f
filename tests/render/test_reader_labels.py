from __future__ import annotations

from dataclasses import replace

from kvaudit.core.slot_readers import SlotReader
from kvaudit.render.reader_labels import reader_label, readers_label, unread_label
from tests.helpers.slot_reports import DAMAGED


def test_a_reader_is_written_as_blame_takes_it() -> None:
    assert reader_label(SlotReader(request_id="tale", position=9)) == "tale@9"
    assert reader_label(SlotReader(request_id=None, position=9)) == "position 9"
    assert reader_label(SlotReader(request_id="a\x1b[1m", position=0)) == "a\\x1b[1m@0"


def test_each_reader_stands_once_and_the_rest_is_counted() -> None:
    readers = [SlotReader(request_id=name, position=1) for name in "AABCDEF"]
    assert readers_label(readers) == "A@1, B@1, C@1, D@1 and 2 more"
    assert readers_label([]) == ""


def test_without_expectations_nobody_is_said_to_read_nothing() -> None:
    assert unread_label(DAMAGED) == "read by nobody"
    assert unread_label(replace(DAMAGED, has_expectations=False)) == ""
