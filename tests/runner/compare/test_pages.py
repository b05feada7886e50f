from __future__ import annotations

import numpy as np

from kvaudit.core.comparison_evidence import SlotPairs
from kvaudit.runner.compare.pages import page_pairs
from tests.helpers.comparing import dumped

POOL = dumped(page_size=2).snapshot()


def _heads(left: list[int], right: list[int]) -> tuple[list[int], int]:
    pairs = SlotPairs(left_rows=np.array(left, np.int64), right_rows=np.array(right, np.int64))
    found = page_pairs(pairs, POOL, POOL)
    return found.heads.tolist(), found.num_pages


def test_a_page_that_moved_as_a_whole_is_compared_by_its_first_slot() -> None:
    assert _heads([4, 5, 2, 3], [2, 3, 8, 9]) == ([0, 2], 2)


def test_a_page_whose_slots_changed_places_or_split_up_is_not() -> None:
    assert _heads([5, 4], [2, 3]) == ([], 1)
    assert _heads([4, 7], [2, 3]) == ([], 1)


def test_a_page_of_which_a_slot_has_no_counterpart_is_not() -> None:
    assert _heads([4], [2]) == ([], 1)
    assert _heads([], []) == ([], 0)
