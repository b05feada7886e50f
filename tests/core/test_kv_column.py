"""Columns in memory."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.kv_column import (
    WINDOW_BYTES,
    ArrayColumn,
    ArrayKvColumn,
    ComputedColumn,
    PageColumn,
)


@pytest.mark.parametrize("row_bytes", [1, 24, 1 << 20, WINDOW_BYTES * 2])
def test_windows_hold_every_row_once_in_order(row_bytes: int) -> None:
    num_rows = 3 if row_bytes > 1024 else 1000
    data = np.zeros((num_rows, row_bytes), dtype=np.uint8)
    column = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=row_bytes)
    rows = [
        range(window.first_row, window.first_row + len(window.data)) for window in column.windows()
    ]
    assert [row for part in rows for row in part] == list(range(num_rows))
    assert all(len(part) * row_bytes <= max(WINDOW_BYTES, row_bytes) for part in rows)
    for window in column.windows():
        assert window.check() is None


def test_rows_are_read_without_a_copy() -> None:
    data = np.arange(32, dtype=np.uint8).reshape(4, 8)
    column = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=8)
    assert (column.num_rows, column.row_bytes, column.is_resident) == (4, 8, True)
    assert np.shares_memory(column.read_rows(1, 3), data)
    assert column.read_rows(1, 3).tolist() == data[1:3].tolist()


def test_a_computed_column_computes_each_time_it_is_read() -> None:
    calls = []
    column = ComputedColumn(name="stamped.k.0", compute=lambda: calls.append(1) or np.zeros(2))
    assert not calls
    column.read()
    assert column.read().tolist() == [0, 0]
    assert len(calls) == 2
    assert ArrayColumn(name="x", values=np.arange(2)).read().tolist() == [0, 1]


def test_all_rows_of_a_page_have_its_value() -> None:
    pages = ArrayColumn(name="digest.k.0", values=np.array([7, -1, 9]))
    column = PageColumn(pages=pages, rows_per_page=np.array([2, 1, 3]))
    assert column.name == "digest.k.0"
    assert column.read().tolist() == [7, 7, -1, 9, 9, 9]
    assert not column.read().flags.writeable
