from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvaudit.backends.cpu import CpuBackend
from kvaudit.backends.reference import ReferenceBackend
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.errors import FileCorrupt
from kvaudit.kernels.row_threads import num_threads
from tests.helpers.kv_columns import WindowedColumn, random_column

LARGE = random_column(num_rows=4000, row_bytes=256, read_bytes=256, window_rows=100)
ALL_ROWS = np.arange(LARGE.num_rows)


def fold_of_seed(seed: int) -> list[int]:
    """Runs in a spawned process too."""
    column = random_column(num_rows=50, row_bytes=32, read_bytes=32, window_rows=7, seed=seed)
    return CpuBackend().fold(column, np.arange(50)).tolist()


@settings(max_examples=60, deadline=None)
@given(
    num_rows=st.integers(0, 40),
    row_bytes=st.integers(0, 40),
    window_rows=st.integers(1, 50),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_fold_equals_the_reference_on_sparse_rows(
    num_rows: int, row_bytes: int, window_rows: int, seed: int, data: st.DataObject
) -> None:
    column = random_column(
        num_rows=num_rows,
        row_bytes=row_bytes,
        read_bytes=data.draw(st.integers(0, row_bytes)),
        window_rows=window_rows,
        seed=seed,
    )
    wanted = data.draw(st.sets(st.integers(0, max(0, num_rows - 1)), max_size=num_rows))
    rows = np.array(sorted(wanted), dtype=np.int64)
    np.testing.assert_array_equal(
        CpuBackend().fold(column, rows), ReferenceBackend().fold(column, rows)
    )


def test_a_column_in_memory_equals_a_windowed_one() -> None:
    column = ArrayKvColumn(name="kv.k.0", data=LARGE.data, read_bytes=256)
    hashes = CpuBackend().fold(column, ALL_ROWS)
    np.testing.assert_array_equal(hashes, CpuBackend().fold(LARGE, ALL_ROWS))
    assert len(set(hashes.tolist())) == LARGE.num_rows


def test_every_window_that_is_read_is_checked_and_no_other() -> None:
    column = random_column(num_rows=50, row_bytes=16, read_bytes=16, window_rows=10)
    CpuBackend().fold(column, np.array([0, 9, 25]))
    assert sorted(column.checked) == [0, 20]


@pytest.mark.skipif(num_threads() == 1, reason="one core")
def test_all_cores_check_and_fold() -> None:
    together = threading.Barrier(2, timeout=60)
    column = WindowedColumn(data=LARGE.data, read_bytes=256, window_rows=2000)
    windows = list(column.windows())

    class Meeting(WindowedColumn):
        def _check(self, first_row: int) -> None:
            together.wait()
            super()._check(first_row)

    meeting = Meeting(data=LARGE.data, read_bytes=256, window_rows=2000)
    CpuBackend().fold(meeting, ALL_ROWS)
    assert len(meeting.checked) == len(windows) == 2
    assert len(set(meeting.checked.values())) == 2


@pytest.mark.parametrize("corrupt", [0, 17, 39])
def test_a_digest_that_differs_is_raised_whichever_thread_found_it(corrupt: int) -> None:
    column = WindowedColumn(data=LARGE.data, read_bytes=256, window_rows=100, corrupt=corrupt)
    backend = CpuBackend()
    with pytest.raises(FileCorrupt) as failure:
        backend.fold(column, ALL_ROWS)
    assert failure.value.column == "kv.k.0"
    np.testing.assert_array_equal(
        backend.fold(LARGE, ALL_ROWS[:3]), ReferenceBackend().fold(LARGE, ALL_ROWS[:3])
    )


def test_a_failure_stops_the_other_threads() -> None:
    column = WindowedColumn(data=LARGE.data, read_bytes=256, window_rows=1, corrupt=0)
    with pytest.raises(FileCorrupt):
        CpuBackend().fold(column, ALL_ROWS)
    assert len(column.checked) < LARGE.num_rows


def test_two_audits_at_once_give_what_one_gives() -> None:
    expected = CpuBackend().fold(LARGE, ALL_ROWS)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(CpuBackend().fold, LARGE, ALL_ROWS) for _ in range(8)]
        for future in futures:
            np.testing.assert_array_equal(future.result(), expected)


def test_a_spawned_process_gives_the_same() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        assert pool.map(fold_of_seed, [1, 2]) == [fold_of_seed(1), fold_of_seed(2)]


def test_the_first_compilation_is_known_beforehand_and_kept(tmp_path: Path) -> None:
    """An audit's kernels first; the one that writes records is compiled where records are written."""
    script = (
        "from kvaudit.backends.cpu import CpuBackend\n"
        "backend = CpuBackend()\n"
        "print(backend.needs_compilation())\n"
        "backend.compile_kernels()\n"
        "print(backend.needs_compilation(), backend.needs_compilation(writes=True))\n"
        "backend.compile_kernels(writes=True)\n"
        "print(backend.needs_compilation(writes=True))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert outputs == [["True", "False", "True", "False"], ["False"] * 4]
