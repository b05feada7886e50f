"""Ways to slice a pool wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.diagnosis.layouts import Layout, Misreading, candidate_layouts

SLOTS = np.arange(8)


def test_t29_pages_of_four_slots_read_as_pages_of_two() -> None:
    layout = Layout(misreading=Misreading.PAGE_SIZE, page_size=2, size=4)
    homes, is_other = layout.homes(SLOTS)
    assert homes.tolist() == [0, 1, 4, 5, 8, 9, 12, 13]
    assert not is_other.any()


def test_packed_blocks_belong_to_one_half_and_the_other_in_turn() -> None:
    layout = Layout(misreading=Misreading.PACKED, page_size=2, size=2)
    homes, is_other = layout.homes(SLOTS)
    assert homes.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert is_other.tolist() == [False, False, True, True] * 2


@pytest.mark.parametrize(
    "layout",
    [
        Layout(misreading=Misreading.PAGE_SIZE, page_size=2, size=4),
        Layout(misreading=Misreading.PAGE_SIZE, page_size=4, size=3),
        Layout(misreading=Misreading.STRIDE, page_size=4, size=3, start=2),
        Layout(misreading=Misreading.STRIDE, page_size=4, start=-1),
        Layout(misreading=Misreading.PACKED, page_size=1, size=1, start=8),
        Layout(misreading=Misreading.PACKED, page_size=4, size=4, other_first=True),
        Layout(misreading=Misreading.EXCHANGED, page_size=4),
    ],
    ids=lambda layout: f"{layout.misreading.name}-{layout.size}-{layout.start}",
)
def test_a_layout_is_found_from_where_content_lies(layout: Layout) -> None:
    slots = np.arange(1, 40)
    homes, is_other = layout.homes(slots)
    candidates = candidate_layouts(
        slots,
        own_homes=np.where(is_other, -1, homes),
        other_homes=np.where(is_other, homes, -1),
        page_size=layout.page_size,
    )
    assert any(
        np.array_equal(found.homes(slots)[0], homes)
        and np.array_equal(found.homes(slots)[1], is_other)
        for found in candidates
    )
