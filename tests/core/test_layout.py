"""Slots and pages as text."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.layout import SlotRanges, rows_per_page, slot_label
from kvaudit.errors import ConfigError


def test_a_slot_is_shown_in_both_numberings() -> None:
    assert slot_label(4103, 16) == "slot 4103 (page 256 +7)"


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("none", ()),
        ("", ()),
        ("0", ((0, 0),)),
        ("0-15", ((0, 15),)),
        ("4-7,0", ((0, 0), (4, 7))),
        ("0-3,4", ((0, 4),)),
        ("0-9, 2-3", ((0, 9),)),
        ("4 - 7", ((4, 7),)),
    ],
)
def test_ranges_are_read_and_joined(text: str, ranges: tuple[tuple[int, int], ...]) -> None:
    assert SlotRanges.parse(text).ranges == ranges


@pytest.mark.parametrize("text", ["x", "1-", "-3", "5-2", "1,,2", "0x1", "1_0", "+3", "٣"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        SlotRanges.parse(text)


@pytest.mark.parametrize("text", ["none", "0", "0-15", "0,4-7"])
def test_ranges_are_written_as_they_are_read(text: str) -> None:
    assert str(SlotRanges.parse(text)) == text


def test_membership_and_mask_agree() -> None:
    ranges = SlotRanges.parse("1,4-6")
    slots = np.arange(-1, 9)
    assert ranges.mask(slots).tolist() == [slot in ranges for slot in slots.tolist()]


@pytest.mark.parametrize(
    ("slots", "counts"),
    [([], []), ([0], [1]), ([3, 4, 5, 7, 8], [1, 3, 1]), ([0, 1, 2, 3, 40, 42], [4, 2])],
)
def test_rows_are_counted_by_page(slots: list[int], counts: list[int]) -> None:
    assert rows_per_page(np.array(slots, dtype=np.int64), 4).tolist() == counts
