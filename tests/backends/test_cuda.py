"""The CUDA backend against the reference, on a device or in a process of the simulator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kvaudit.backends import cuda as cuda_backend
from kvaudit.backends.cuda import CudaBackend
from kvaudit.backends.cuda_device import usable_devices
from kvaudit.backends.cuda_staging import NUM_BUFFERS, Staging
from kvaudit.backends.reference import ReferenceBackend
from kvaudit.constants import LaunchTag
from kvaudit.core.backend import Backend, FoldJob
from kvaudit.errors import FileCorrupt
from kvaudit.kernels.cuda_module import SIMULATED, cuda
from tests.helpers.digested_columns import digested_column
from tests.helpers.kv_columns import WindowedColumn, random_column

runs_kernels = pytest.mark.skipif(
    not SIMULATED and not cuda.is_available(),
    reason="no CUDA device; the simulator runs it in a process of its own",
)
SIMULATED_FILES = (
    "test_cuda.py",
    "test_cuda_staging.py",
    "test_device_arrays.py",
    "test_fold_pipeline.py",
    "test_recorded_work.py",
)
# Simulated kernels multiply and add numpy scalars, which warn where hashes wrap.
OVERFLOWS = "ignore:overflow encountered in scalar:RuntimeWarning"
NUM_SLOTS = 9


@pytest.fixture
def backend() -> CudaBackend:
    return CudaBackend(device="the device under test")


def use_staging(backend: CudaBackend, staging: Staging) -> None:
    """Put a small one in place of the backend's."""
    backend._staging, backend._idle_staging = staging, [staging]


@runs_kernels
@pytest.mark.gpu
@pytest.mark.parametrize(("row_bytes", "read_bytes"), [(32, 32), (48, 20), (7, 7), (16, 0)])
def test_fold_equals_the_reference_on_sparse_rows(
    backend: Backend, row_bytes: int, read_bytes: int
) -> None:
    column = random_column(num_rows=20, row_bytes=row_bytes, read_bytes=read_bytes, window_rows=3)
    rows = np.array([0, 2, 3, 4, 11, 19])
    np.testing.assert_array_equal(backend.fold(column, rows), ReferenceBackend().fold(column, rows))
    assert sorted(column.checked) == [0, 3, 9, 18]
    half = read_bytes // 2
    np.testing.assert_array_equal(
        backend.fold(column, rows, read_bytes=half),
        ReferenceBackend().fold(column, rows, read_bytes=half),
    )


@runs_kernels
@pytest.mark.gpu
def test_columns_of_growing_rows_share_one_backend(backend: Backend) -> None:
    for row_bytes in (64, 16, 4096):
        column = random_column(num_rows=6, row_bytes=row_bytes, read_bytes=16, window_rows=2)
        rows = np.arange(6)
        np.testing.assert_array_equal(
            backend.fold(column, rows), ReferenceBackend().fold(column, rows)
        )


@runs_kernels
@pytest.mark.gpu
def test_a_digest_that_differs_is_raised_and_the_backend_goes_on(backend: Backend) -> None:
    sound = random_column(num_rows=12, row_bytes=16, read_bytes=16, window_rows=2)
    corrupt = WindowedColumn(data=sound.data, read_bytes=16, window_rows=2, corrupt=3)
    rows = np.arange(12)
    with pytest.raises(FileCorrupt):
        backend.fold(corrupt, rows)
    np.testing.assert_array_equal(backend.fold(sound, rows), ReferenceBackend().fold(sound, rows))


@runs_kernels
@pytest.mark.gpu
@pytest.mark.parametrize(("row_bytes", "read_bytes"), [(256, 256), (200, 16), (136, 77), (77, 77)])
def test_a_column_of_many_buffers_has_every_hash_in_its_place(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch, row_bytes: int, read_bytes: int
) -> None:
    """Buffers of two chunks; rows begin in one and end in another, and the last chunk is shorter."""
    monkeypatch.setattr(cuda_backend, "largest_shipment", lambda _column: 0)
    use_staging(backend, Staging(buffer_bytes=3072, num_buffers=3))
    num_rows = 6000 // row_bytes
    column = digested_column(
        num_rows=num_rows,
        row_bytes=row_bytes,
        read_bytes=read_bytes,
        batch_rows=[num_rows // 3, num_rows - num_rows // 3],
    )
    for rows in (np.arange(num_rows), np.delete(np.arange(num_rows), [0, 7, 8, 20])):
        expected = ReferenceBackend().fold(column, rows)
        np.testing.assert_array_equal(backend.fold(column, rows), expected)
    assert {chunk for _, chunk in column.proven} == {
        batch.content.size // 1024 for batch in column.batches if batch.content.size % 1024
    }


@runs_kernels
@pytest.mark.gpu
@pytest.mark.parametrize("at", [0, 3000, 5119, 5200])
def test_a_flipped_bit_anywhere_is_a_digest_that_differs(backend: CudaBackend, at: int) -> None:
    """Also in bytes that are not folded, and in a last chunk too short for the device."""
    column = digested_column(num_rows=21, row_bytes=256, read_bytes=16)
    column.data.reshape(-1)[at] ^= 1
    with pytest.raises(FileCorrupt) as failure:
        backend.fold(column, np.arange(21))
    assert failure.value.column == f"kv.k.0 0 {at // 1024}"


@runs_kernels
@pytest.mark.gpu
@pytest.mark.parametrize("row_bytes", [2048, 2049])
def test_rows_too_wide_for_a_buffer_have_buffers_of_their_own(
    backend: CudaBackend, row_bytes: int
) -> None:
    use_staging(backend, Staging(buffer_bytes=1024, num_buffers=2))
    column = random_column(num_rows=9, row_bytes=row_bytes, read_bytes=48, window_rows=2)
    rows = np.arange(9)
    np.testing.assert_array_equal(backend.fold(column, rows), ReferenceBackend().fold(column, rows))


def columns_of_many_sizes() -> list[FoldJob]:
    columns = [
        random_column(num_rows=12 + seed, row_bytes=16, read_bytes=16, window_rows=3, seed=seed)
        for seed in range(5)
    ]
    columns.insert(2, random_column(num_rows=3, row_bytes=2048, read_bytes=24, window_rows=2))
    return [FoldJob(column, np.arange(column.num_rows)) for column in columns]


@runs_kernels
@pytest.mark.gpu
def test_folds_of_many_columns_give_what_each_alone_gives(backend: CudaBackend) -> None:
    use_staging(backend, Staging(buffer_bytes=8192, num_buffers=2))
    jobs = columns_of_many_sizes()
    for hashes, job in zip(backend.folds(jobs), jobs, strict=True):
        np.testing.assert_array_equal(hashes, ReferenceBackend().fold(job.column, job.rows))
        # While one walk is under way, another one has memory of its own.
        np.testing.assert_array_equal(hashes, backend.fold(job.column, job.rows))


@runs_kernels
@pytest.mark.gpu
def test_folds_of_several_threads_do_not_meet(backend: CudaBackend) -> None:
    jobs = columns_of_many_sizes()
    with ThreadPoolExecutor(3) as callers:
        folds = [callers.submit(backend.fold, job.column, job.rows) for job in jobs]
        for fold, job in zip(folds, jobs, strict=True):
            expected = ReferenceBackend().fold(job.column, job.rows)
            np.testing.assert_array_equal(fold.result(), expected)


@cuda.jit
def _spin(sink: object, num_rounds: int) -> None:
    for _ in range(num_rounds):
        cuda.atomic.add(sink, 0, 1)


@runs_kernels
@pytest.mark.gpu
@pytest.mark.skipif(SIMULATED, reason="the simulator has no streams")
@pytest.mark.filterwarnings("ignore:.*Grid size")
def test_a_fold_reads_nothing_that_the_default_stream_still_has_to_do() -> None:
    """Nothing orders that stream before a buffer's: what is enqueued on it may come much later."""
    sink = cuda.to_device(np.zeros(1, dtype=np.int64))
    _spin[1, 1](sink, 1)
    column = digested_column(num_rows=40, row_bytes=256, batch_rows=[13, 27])
    rows = np.arange(40)
    expected = ReferenceBackend().fold(column, rows)
    backend = CudaBackend(device="the device under test")
    backend.fold(column, rows[:1])
    cuda.synchronize()
    fresh = Staging(buffer_bytes=1 << 20, num_buffers=2)
    done = cuda.event()
    _spin[1, 1](sink, 1 << 21)
    done.record()
    assert not done.query()
    use_staging(backend, fresh)
    for _ in range(3):
        np.testing.assert_array_equal(backend.fold(column, rows), expected)


@runs_kernels
@pytest.mark.gpu
@pytest.mark.skipif(SIMULATED, reason="the simulator records calls, which keep what they call")
def test_a_backend_that_folded_is_gone_when_nobody_has_it() -> None:
    """Its memory is freed then, not when Python looks for what keeps itself."""
    column = random_column(num_rows=30, row_bytes=16, read_bytes=16, window_rows=7)
    backend = CudaBackend(device="the device under test")
    for _ in range(3):
        assert len(backend.fold(column, np.arange(30))) == 30
    staging = weakref.ref(backend._staging)
    del backend
    assert staging() is None


@runs_kernels
@pytest.mark.gpu
def test_device_memory_is_that_of_the_buffers_and_of_their_hashes(backend: CudaBackend) -> None:
    before = backend.device_bytes
    rows = np.arange(100)
    column = random_column(num_rows=100, row_bytes=16, read_bytes=16, window_rows=30)
    for _ in range(3):
        backend.combine([backend.fold(column, rows)])
    assert backend.device_bytes - before == (NUM_BUFFERS + 1) * 30 * 8
    assert backend.device_bytes < 1 << 30


@runs_kernels
@pytest.mark.gpu
def test_read_only_records_are_uploaded_once_and_others_each_time(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads, upload = [], cuda.to_device
    monkeypatch.setattr(
        cuda,
        "to_device",
        lambda array, **options: uploads.append(array) or upload(array, **options),
    )
    slots = np.arange(NUM_SLOTS)
    expected = []
    for value in (1, 2):
        records = np.full((NUM_SLOTS, 4), value)
        expected.append(ReferenceBackend().slot_hashes(records, slots).tolist())
        records.flags.writeable = False
        for _ in range(3):
            assert backend.slot_hashes(records, slots).tolist() == expected[-1]
        assert len(uploads) == value
    changing = np.full((NUM_SLOTS, 4), 1)
    assert backend.slot_hashes(changing, slots).tolist() == expected[0]
    changing[:] = 2
    assert backend.slot_hashes(changing, slots).tolist() == expected[1]
    assert len(uploads) == 2


@runs_kernels
@pytest.mark.gpu
def test_every_device_of_the_machine_folds_the_same_at_the_same_time(backend: CudaBackend) -> None:
    num_devices = max(1, len(usable_devices()))
    backends = backend.spread(2 * num_devices)
    assert len(backends) == num_devices
    assert backend.spread(1) == backends[:1] == [backend]
    column = random_column(num_rows=30, row_bytes=16, read_bytes=16, window_rows=7)
    rows = np.arange(30)
    expected = ReferenceBackend().fold(column, rows)
    with ThreadPoolExecutor(num_devices) as callers:
        for hashes in callers.map(lambda each: each.fold(column, rows), backends):
            np.testing.assert_array_equal(hashes, expected)


@runs_kernels
@pytest.mark.gpu
@pytest.mark.skipif(SIMULATED, reason="the simulator has no driver")
def test_a_process_that_used_every_device_ends_as_it_says() -> None:
    code = (
        "import numpy as np; "
        "from kvaudit.backends.cuda import CudaBackend; "
        "from tests.helpers.kv_columns import random_column; "
        "column = random_column(num_rows=30, row_bytes=16, read_bytes=16, window_rows=7); "
        "backends = CudaBackend(device='').spread(64); "
        "[each.compile_kernels() for each in backends]; "
        "[each.fold(column, np.arange(30)) for each in backends]; "
        "raise SystemExit(3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr


@runs_kernels
@pytest.mark.gpu
@pytest.mark.parametrize("has_hashes", [False, True])
@pytest.mark.parametrize("num_entries", [0, 25])
def test_verify_gives_the_references_bits(
    backend: Backend, has_hashes: bool, num_entries: int
) -> None:
    random = np.random.default_rng(4)
    arguments = {
        "records": random.integers(-2, 3, (NUM_SLOTS, 4)),
        "slot_indices": random.integers(-2, NUM_SLOTS + 2, num_entries),
        "expected_tokens": random.integers(-2, 3, num_entries),
        "expected_positions": random.integers(-2, 3, num_entries),
        "prev_slot_indices": random.integers(-2, NUM_SLOTS + 2, num_entries),
        "real_kv_hashes": random.integers(0, 3, num_entries).astype(np.uint64),
        "tag": LaunchTag.TAIL_K_FULL,
        "check_expected_token": True,
    }
    if not has_hashes:
        arguments["real_kv_hashes"] = None
    reasons = backend.verify(**arguments)
    np.testing.assert_array_equal(reasons, ReferenceBackend().verify(**arguments))
    assert reasons.dtype == np.uint32


@runs_kernels
@pytest.mark.gpu
def test_combine_and_slot_hashes_equal_the_reference(backend: Backend) -> None:
    random = np.random.default_rng(6)
    sources = [random.integers(0, 2**63, 10).astype(np.uint64) for _ in range(3)]
    np.testing.assert_array_equal(backend.combine(sources), ReferenceBackend().combine(sources))
    records = random.integers(-9, 9, (NUM_SLOTS, 4))
    slots = np.array([-1, 3, 8, 0])
    np.testing.assert_array_equal(
        backend.slot_hashes(records, slots), ReferenceBackend().slot_hashes(records, slots)
    )


@runs_kernels
@pytest.mark.gpu
def test_chains_that_go_on_from_each_other_are_written_in_order(backend: Backend) -> None:
    slots = np.arange(NUM_SLOTS)
    stamped = [np.zeros((NUM_SLOTS, 4), dtype=np.int64) for _ in range(2)]
    for writer, records in zip((backend, ReferenceBackend()), stamped, strict=True):
        writer.write_records(
            records=records,
            write_offsets=np.arange(NUM_SLOTS + 1),
            write_seed_slot_indices=slots - 1,
            input_ids=slots + 40,
            positions=slots,
            out_cache_loc=slots,
            real_kv_hashes=slots.astype(np.uint64),
            tag=LaunchTag.TAIL_K_FULL,
        )
    np.testing.assert_array_equal(*stamped)


@runs_kernels
@pytest.mark.gpu
def test_kernels_compile_before_the_first_job(backend: Backend) -> None:
    backend.compile_kernels(writes=True)
    assert not backend.needs_compilation(writes=True)
    assert backend.name == "cuda"
    assert backend.device == "the device under test"


@pytest.mark.skipif(SIMULATED, reason="this is the simulator's process")
def test_these_tests_pass_in_the_simulator() -> None:
    folder = Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "-W", OVERFLOWS),
            *(str(folder / name) for name in SIMULATED_FILES),
        ],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^53 passed, 6 skipped, 1 deselected", done.stdout, re.MULTILINE), done.stdout
