"""A page's hash combines those of its slots, in slot order."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.page_hashes import page_hashes
from kvaudit.kernels.hash.reference import splitmix64


def by_hand(hashes: list[int]) -> int:
    running = 0
    for source_hash in hashes:
        running = splitmix64(running ^ source_hash)
    return running


def columns(num_columns: int, num_slots: int) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    bounds = np.iinfo(np.int64)
    return [
        random.integers(bounds.min, bounds.max, num_slots, np.int64) for _ in range(num_columns)
    ]


@pytest.mark.parametrize("rows_per_page", [[3], [1, 1, 1], [4, 1, 4, 2], [1, 3]], ids=str)
def test_each_page_is_the_fold_of_its_slots(rows_per_page: list[int]) -> None:
    slot_hashes = columns(3, sum(rows_per_page))
    ends = np.cumsum(rows_per_page)
    for column, pages in zip(
        slot_hashes, page_hashes(slot_hashes, np.array(rows_per_page)), strict=True
    ):
        parts = np.split(column.view(np.uint64), ends[:-1])
        assert pages.view(np.uint64).tolist() == [
            by_hand([int(value) for value in part]) for part in parts
        ]


def test_the_order_of_slots_counts() -> None:
    (column,) = columns(1, 2)
    (forth,) = page_hashes([column], np.array([2]))
    (back,) = page_hashes([column[::-1].copy()], np.array([2]))
    assert forth[0] != back[0]


def test_no_slot_has_no_page_and_no_column_has_no_hash() -> None:
    assert [len(pages) for pages in page_hashes(columns(2, 0), np.empty(0, np.int64))] == [0, 0]
    assert page_hashes([], np.array([1])) == []
