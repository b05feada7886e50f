from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.kv_column import (
    WINDOW_BYTES,
    ArrayColumn,
    ArrayKvColumn,
    ComputedColumn,
    LeadingBytes,
)


def column(num_rows: int, row_bytes: int) -> ArrayKvColumn:
    data = np.arange(num_rows * row_bytes, dtype=np.uint64).astype(np.uint8)
    return ArrayKvColumn(
        name="kv.k.0", data=data.reshape(num_rows, row_bytes), read_bytes=row_bytes, dtype="uint8"
    )


@pytest.mark.parametrize(
    ("num_rows", "row_bytes"), [(0, 16), (1, 16), (5, WINDOW_BYTES // 2), (3, WINDOW_BYTES + 8)]
)
def test_windows_hold_every_row_once_in_order_without_a_copy(num_rows: int, row_bytes: int) -> None:
    pool = column(num_rows, row_bytes)
    rows = 0
    for window in pool.windows():
        assert window.first_row == rows
        assert np.shares_memory(window.data, pool.data)
        assert len(window.data) == 1 or window.data.nbytes <= WINDOW_BYTES
        assert window.check() is None
        rows += len(window.data)
    assert rows == num_rows


def test_rows_are_read_by_their_ends() -> None:
    pool = column(4, 16)
    assert pool.read_rows(1, 3).tolist() == pool.data[1:3].tolist()
    assert (pool.num_rows, pool.row_bytes) == (4, 16)


@pytest.mark.parametrize(("row_bytes", "read_bytes"), [(8, 8), (16, 16), (48, 16)])
def test_partial_reads_the_leading_bytes_of_the_same_column(
    row_bytes: int, read_bytes: int
) -> None:
    pool = column(4, row_bytes)
    leading = LeadingBytes(column=pool)
    assert leading.read_bytes == read_bytes
    assert (leading.name, leading.num_rows, leading.row_bytes, leading.dtype) == (
        "kv.k.0",
        4,
        row_bytes,
        "uint8",
    )
    assert leading.read_rows(0, 4).tolist() == pool.data.tolist()
    assert sum(len(window.data) for window in leading.windows()) == 4


def test_a_column_of_values_is_read_as_it_is_or_computed_anew() -> None:
    values = np.arange(4, dtype=np.int64)
    calls = []
    computed = ComputedColumn(name="digest.k.0", compute=lambda: calls.append(1) or values)
    assert ArrayColumn(name="digest.k.0", values=values).read() is values
    assert computed.read() is values
    assert computed.read() is values
    assert len(calls) == 2
