from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.window_walk import wanted_windows
from tests.helpers.kv_columns import random_column

COLUMN = random_column(num_rows=10, row_bytes=8, read_bytes=8, window_rows=3)


@pytest.mark.parametrize(
    ("rows", "windows"),
    [
        ([], []),
        ([0], [0]),
        ([2, 3], [0, 3]),
        ([9], [9]),
        ([4, 5], [3]),
        (list(range(10)), [0, 3, 6, 9]),
    ],
)
def test_only_windows_with_a_wanted_row_are_taken(rows: list[int], windows: list[int]) -> None:
    tasks = list(wanted_windows(COLUMN, np.array(rows, dtype=np.int64)))
    assert [task.window.first_row for task in tasks] == windows


def test_the_tasks_share_out_the_selection_in_order() -> None:
    rows = np.array([0, 2, 4, 5, 9])
    tasks = list(wanted_windows(COLUMN, rows))
    assert [(task.first, task.last) for task in tasks] == [(0, 2), (2, 4), (4, 5)]
    assert [task.next_is_wanted for task in tasks] == [False, False, False]
    found = [COLUMN.data[task.window.first_row :][task.window_rows(rows)] for task in tasks]
    np.testing.assert_array_equal(np.concatenate(found), COLUMN.data[rows])


@pytest.mark.parametrize(
    ("rows", "next_is_wanted"),
    [
        ([2], [False]),
        ([2, 3], [True, False]),
        ([0, 3], [True, False]),
        ([2, 4], [False, False]),
        ([2, 6], [False, False]),
        (list(range(10)), [True, True, True, False]),
    ],
)
def test_a_task_knows_whether_its_neighbour_is_walked_too(
    rows: list[int], next_is_wanted: list[bool]
) -> None:
    tasks = list(wanted_windows(COLUMN, np.array(rows, dtype=np.int64)))
    assert [task.next_is_wanted for task in tasks] == next_is_wanted
