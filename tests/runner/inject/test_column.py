from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.runner.inject.column import PatchedKvColumn


def _column() -> tuple[np.ndarray, PatchedKvColumn]:
    data = np.arange(80, dtype=np.uint8).reshape(10, 8)
    column = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=6, dtype="bfloat16")
    return data.copy(), PatchedKvColumn(column)


def test_it_is_the_column_below_but_for_the_rows_that_were_patched() -> None:
    expected, column = _column()
    assert not column.is_patched
    for rows, value in (([7, 2], 200), ([2, 3], 201)):
        data = np.full((2, 8), value, dtype=np.uint8)
        data[1] += 10
        column.patch(np.array(rows), data)
        expected[rows] = data
    assert column.is_patched
    assert (column.read_rows(0, 10) == expected).all()
    assert (column.read_rows(2, 4) == expected[2:4]).all()
    assert (column.read_rows(4, 6) == expected[4:6]).all()
    assert (np.concatenate([window.data for window in column.windows()]) == expected).all()


@pytest.mark.parametrize("rows", [[], [3], [3, 4, 5], [9, 0, 1, 7]])
def test_rows_come_in_the_order_in_which_they_are_asked_for(rows: list[int]) -> None:
    expected, column = _column()
    asked = np.array(rows, dtype=np.int64)
    assert (column.rows_at(asked) == expected[asked]).all()


def test_the_column_below_is_never_written_to() -> None:
    data = np.zeros((4, 8), dtype=np.uint8)
    below = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=8)
    column = PatchedKvColumn(below)
    column.patch(np.array([1]), np.ones((1, 8), dtype=np.uint8))
    column.read_rows(0, 4)[0] = 9
    assert not data.any()


def test_it_has_the_geometry_of_the_column_below() -> None:
    _, column = _column()
    assert (column.name, column.num_rows, column.row_bytes) == ("kv.k.0", 10, 8)
    assert (column.read_bytes, column.dtype, column.is_resident) == (6, "bfloat16", False)
