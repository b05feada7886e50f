"""Look-ups of values in an array."""

from __future__ import annotations

import numpy as np

from kvaudit.core.value_index import ValueIndex


def test_every_place_of_any_wanted_value_is_given_once_in_order() -> None:
    index = ValueIndex(np.array([5, 3, 5, 9, 3]))
    assert index.where(np.array([3, 5, 3, 7])).tolist() == [0, 1, 2, 4]
    assert index.where(np.array([7])).tolist() == []


def test_the_first_place_of_each_wanted_value_is_in_the_order_asked_for() -> None:
    index = ValueIndex(np.array([5, 3, 5, 9], dtype=np.uint64))
    assert index.first(np.array([9, 5, 7, 2**63], dtype=np.uint64)).tolist() == [3, 0, -1, -1]


def test_all_places_of_each_wanted_value_are_in_the_order_asked_for() -> None:
    index = ValueIndex(np.array([5, 3, 5, 9]))
    assert [places.tolist() for places in index.places(np.array([9, 4, 5]))] == [[3], [], [0, 2]]


def test_an_empty_array_has_no_value() -> None:
    index = ValueIndex(np.empty(0, dtype=np.int64))
    assert index.where(np.array([1])).tolist() == []
    assert index.first(np.array([1, 2])).tolist() == [-1, -1]
