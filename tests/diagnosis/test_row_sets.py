"""Sets of rows as ascending arrays."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.diagnosis.row_sets import among, differing_at, union_of


@pytest.mark.parametrize("ascending", [[], [4], [0, 3, 9], list(range(50))])
def test_membership_is_numpys(ascending: list[int]) -> None:
    rows, many = np.array([9, 0, 60, 4, 4]), np.array(ascending, dtype=np.int64)
    assert among(rows, many).tolist() == np.isin(rows, many).tolist()
    assert among(rows[:0], many).tolist() == []


def test_the_rows_of_each_column_keep_their_order_and_empty_columns_are_left_out() -> None:
    columns = {"kv.k.0": np.array([1, 5, 7]), "kv.v.0": np.array([2])}
    found = differing_at(columns, np.array([7, 3, 5]))
    assert {name: rows.tolist() for name, rows in found.items()} == {"kv.k.0": [7, 5]}


def test_a_union_has_each_row_once() -> None:
    assert union_of([np.array([5, 1]), np.array([1, 9])]).tolist() == [1, 5, 9]
    assert union_of([]).tolist() == []
