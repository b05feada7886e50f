from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.layout import SlotRanges, slot_label
from kvaudit.errors import ConfigError


def test_a_slot_is_written_in_both_numberings() -> None:
    assert slot_label(4103, 16) == "slot 4103 (page 256 +7)"
    assert slot_label(0, 1) == "slot 0 (page 0 +0)"


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("0", ((0, 0),)),
        ("0-15", ((0, 15),)),
        ("4-7, 0", ((0, 0), (4, 7))),
        ("0-3,4-7", ((0, 7),)),
        ("2-9,3-5", ((2, 9),)),
        ("none", ()),
        ("", ()),
    ],
)
def test_ranges_are_read_sorted_and_joined(text: str, ranges: tuple) -> None:
    assert SlotRanges.parse(text).ranges == ranges


@pytest.mark.parametrize("text", ["x", "1-", "-1", "9-2", "1;2", "1.5", "0-15,"])
def test_what_is_no_list_of_slots_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        SlotRanges.parse(text)


@pytest.mark.parametrize("text", ["0", "0-15", "0,4-7", "none"])
def test_ranges_write_themselves_as_they_are_read(text: str) -> None:
    assert str(SlotRanges.parse(text)) == text


def test_a_set_of_slots_holds_its_ends_and_nothing_beyond() -> None:
    slots = SlotRanges.parse("0,4-7")
    assert [slot for slot in range(-1, 9) if slot in slots] == [0, 4, 5, 6, 7]
    asked = np.arange(-1, 9, dtype=np.int64)
    assert asked[slots.mask(asked)].tolist() == [0, 4, 5, 6, 7]
