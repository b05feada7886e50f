"""Rows of windows in chunks; runs in the simulator's process of test_cuda.py, without kernels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvaudit.backends.column_upload import (
    ColumnUpload,
    Filling,
    copy_rows,
    staged_row_bytes,
    staged_window_bytes,
)
from kvaudit.backends.cuda_staging import Staging
from kvaudit.core.kv_column import WINDOW_BYTES, ArrayKvColumn
from kvaudit.errors import FileCorrupt
from kvaudit.kernels import row_threads
from kvaudit.kernels.cuda_module import SIMULATED, cuda
from kvaudit.kernels.row_threads import drain
from tests.helpers.kv_columns import WindowedColumn, random_column

on_device = pytest.mark.skipif(
    not SIMULATED and not cuda.is_available(),
    reason="no CUDA device; the simulator runs it in a process of its own",
)


def uploaded(
    column: WindowedColumn, rows: np.ndarray, *, num_bytes: int, staging: Staging
) -> np.ndarray:
    """What reaches the device of each row, all chunks together."""
    staged = np.full((len(rows), staged_row_bytes(num_bytes)), 0xEE, dtype=np.uint8)
    stream = cuda.stream()

    def send(filling: Filling) -> None:
        shape = filling.last - filling.first, staged.shape[1]
        staged[filling.first : filling.last] = filling.chunk.upload(
            *shape, stream=stream
        ).copy_to_host()
        filling.chunk.record_use(stream)

    upload = ColumnUpload(
        column, rows, num_bytes=num_bytes, staging=staging, send=send, on_device=nullcontext
    )
    try:
        drain(upload.tasks(), upload.fill)
    finally:
        upload.close()
    return staged


@on_device
@pytest.mark.gpu
@settings(max_examples=40, deadline=None)
@given(
    num_rows=st.integers(0, 60),
    row_bytes=st.integers(1, 24),
    window_rows=st.integers(1, 4),
    chunk_words=st.integers(9, 30),
    data=st.data(),
)
def test_the_leading_bytes_of_wanted_rows_arrive_as_whole_words(
    num_rows: int, row_bytes: int, window_rows: int, chunk_words: int, data: st.DataObject
) -> None:
    num_bytes = data.draw(st.integers(0, row_bytes))
    wanted = data.draw(st.sets(st.integers(0, max(0, num_rows - 1)), max_size=num_rows))
    rows = np.array(sorted(wanted), dtype=np.int64)
    column = random_column(
        num_rows=num_rows, row_bytes=row_bytes, read_bytes=num_bytes, window_rows=window_rows
    )
    staging = Staging(chunk_bytes=chunk_words * 8, num_chunks=3)
    staged = uploaded(column, rows, num_bytes=num_bytes, staging=staging)
    np.testing.assert_array_equal(staged[:, :num_bytes], column.data[rows, :num_bytes])
    assert not staged[:, num_bytes:].any()
    windows = {row // window_rows * window_rows for row in rows.tolist()}
    assert sorted(column.checked) == sorted(windows)


@on_device
@pytest.mark.gpu
@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_the_first_corrupt_window_is_raised_and_every_chunk_returns(
    monkeypatch: pytest.MonkeyPatch, num_threads: int
) -> None:
    monkeypatch.setattr(row_threads, "num_threads", lambda: num_threads)
    staging = Staging(chunk_bytes=64, num_chunks=3)
    sound = random_column(num_rows=60, row_bytes=16, read_bytes=16, window_rows=2)
    rows = np.arange(60)

    class AllCorrupt(WindowedColumn):
        def _check(self, first_row: int) -> None:
            raise FileCorrupt("the digest differs", column=f"at {first_row}")

    for _ in range(20):
        corrupt = AllCorrupt(data=sound.data, read_bytes=16, window_rows=2)
        with pytest.raises(FileCorrupt) as failure:
            uploaded(corrupt, rows, num_bytes=16, staging=staging)
        assert failure.value.column == "at 0"
    staged = uploaded(sound, rows, num_bytes=16, staging=staging)
    np.testing.assert_array_equal(staged, sound.data)


@on_device
@pytest.mark.gpu
def test_two_columns_at_once_share_the_chunks() -> None:
    staging = Staging(chunk_bytes=64, num_chunks=4)
    columns = [
        random_column(num_rows=90, row_bytes=16, read_bytes=16, window_rows=3, seed=seed)
        for seed in range(6)
    ]
    with ThreadPoolExecutor(2) as callers:
        futures = [
            callers.submit(uploaded, column, np.arange(90), num_bytes=16, staging=staging)
            for column in columns
        ]
        for future, column in zip(futures, columns, strict=True):
            np.testing.assert_array_equal(future.result(), column.data)


@pytest.mark.parametrize(
    ("num_bytes", "staged"), [(0, 8), (1, 8), (8, 8), (9, 16), (1024, 1024), (1026, 1032)]
)
def test_a_row_takes_whole_words_and_at_least_one(num_bytes: int, staged: int) -> None:
    assert staged_row_bytes(num_bytes) == staged


@pytest.mark.parametrize("row_bytes", [1, 7, 1024, 3 * WINDOW_BYTES])
def test_no_window_takes_more_than_it_is_said_to(row_bytes: int) -> None:
    data = np.lib.stride_tricks.as_strided(
        np.zeros(1, np.uint8), shape=(2 * WINDOW_BYTES // row_bytes + 2, row_bytes), strides=(0, 0)
    )
    column = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=row_bytes)
    largest = max(len(window.data) for window in column.windows())
    assert largest * staged_row_bytes(row_bytes) <= staged_window_bytes(column, row_bytes)


@pytest.mark.parametrize("num_bytes", [8, 6])
@pytest.mark.parametrize("row_bytes", [8, 12])
@pytest.mark.parametrize("rows", [[3], [2, 3, 4], [0, 2, 5]])
def test_rows_are_copied_and_the_rest_of_their_words_is_zero(
    rows: list[int], row_bytes: int, num_bytes: int
) -> None:
    data = np.random.default_rng(0).integers(1, 256, (6, row_bytes), dtype=np.uint8)
    target = np.full((len(rows), 8), 0xEE, dtype=np.uint8)
    copy_rows(data[:, :num_bytes], np.array(rows), target=target)
    np.testing.assert_array_equal(target[:, :num_bytes], data[rows, :num_bytes])
    assert not target[:, num_bytes:].any()
