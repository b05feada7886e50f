"""Columns through buffers; runs in the simulator's process of test_cuda.py, without kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvaudit.backends import cuda_staging, fold_pipeline
from kvaudit.backends.cuda_staging import Buffer, Staging, Work
from kvaudit.backends.fold_pipeline import FoldPipeline
from kvaudit.core.backend import FoldJob
from kvaudit.core.kv_column import KvColumn
from kvaudit.errors import DeviceFailed, FileCorrupt
from kvaudit.kernels.cuda_module import SIMULATED, cuda
from tests.helpers.digested_columns import DigestedColumn, digested_column
from tests.helpers.kv_columns import WindowedColumn, random_column

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]

BUFFER_BYTES = 4096


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_pipeline, "PIECE_BYTES", 640)
    # The kernels of these tests run on the host, which no graph can.
    monkeypatch.setattr(cuda_staging, "recorded", lambda enqueue, _stream: enqueue)


def checksums(rows: np.ndarray) -> np.ndarray:
    """What stands for a hash here: the sum of a row's bytes, each times its place."""
    return (rows.astype(np.uint64) * np.arange(1, rows.shape[1] + 1, dtype=np.uint64)).sum(axis=1)


def kernels(buffer: Buffer, work: Work) -> None:
    """Hash chunks and rows as the device would, of the bytes that arrived there."""
    stream = buffer.stream
    stream.synchronize()
    hashes = checksums(buffer.rows(work).copy_to_host())
    # On the buffer's stream: its results are copied there, and no other stream is waited for.
    buffer.hashes(work).copy_to_device(hashes, stream=stream)
    if work.num_chunks:
        content = buffer.words.copy_to_host().view(np.uint8)
        digests = digests_of(content, work.num_chunks)
        buffer.digests(work).copy_to_device(digests, stream=stream)
    stream.synchronize()


def digests_of(content: np.ndarray, num_chunks: int) -> np.ndarray:
    flat = content[: num_chunks * 1024].reshape(num_chunks, 1024)
    return digested_column(num_rows=num_chunks, row_bytes=1024, data=flat).batches[0].digests


def folded(jobs: Iterable[FoldJob], staging: Staging) -> Iterator[np.ndarray]:
    return FoldPipeline(jobs, staging=staging, kernels=kernels, on_device=nullcontext).hashes()


def small_staging(num_buffers: int = 3) -> Staging:
    return Staging(buffer_bytes=BUFFER_BYTES, num_buffers=num_buffers)


def all_rows(column: KvColumn) -> FoldJob:
    return FoldJob(column, np.arange(column.num_rows))


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 900)), max_size=4),
    num_buffers=st.integers(2, 6),
    data=st.data(),
)
def test_each_job_has_its_hashes_in_order(
    sizes: list[tuple[int, int]], num_buffers: int, data: st.DataObject
) -> None:
    jobs = []
    for seed, (num_rows, row_bytes) in enumerate(sizes):
        column = digested_column(num_rows=num_rows, row_bytes=row_bytes, seed=seed)
        wanted = data.draw(st.sets(st.integers(0, max(0, num_rows - 1)), max_size=num_rows))
        jobs.append(FoldJob(column, np.array(sorted(wanted), dtype=np.int64)))
    staging = small_staging(num_buffers)
    for _ in range(2):
        hashes = list(folded(jobs, staging))
        assert len(hashes) == len(jobs)
        for found, job in zip(hashes, jobs, strict=True):
            np.testing.assert_array_equal(found, checksums(job.column.data[job.rows]))
    assert len(staging.free) == num_buffers


def test_the_first_column_returns_while_later_ones_are_not_begun() -> None:
    """Else the hashes of all columns would be in memory at once."""
    begun = []

    def jobs() -> Iterator[FoldJob]:
        for seed in range(20):
            begun.append(seed)
            yield all_rows(digested_column(num_rows=16, row_bytes=256, seed=seed))

    staging = small_staging()
    for num_returned, _ in enumerate(folded(jobs(), staging), 1):
        assert len(begun) <= num_returned + 3
    assert len(begun) == 20
    assert staging.device_bytes == 3 * (BUFFER_BYTES + 256 + (16 + 4) * 8) + 16 * 8


class AllCorrupt(WindowedColumn):
    """Every window fails its check, by its own name."""

    def _check(self, first_row: int) -> None:
        raise FileCorrupt("the digest differs", column=f"{self.name} at {first_row}")


def corrupt_column(name: str) -> AllCorrupt:
    data = np.zeros((60, 64), dtype=np.uint8)
    return AllCorrupt(data=data, read_bytes=64, window_rows=2, name=name)


def flipped_column(name: str, at: int) -> DigestedColumn:
    column = digested_column(num_rows=60, row_bytes=256, name=name)
    column.data.reshape(-1)[at] ^= 1
    return column


SOUND = digested_column(num_rows=60, row_bytes=256)


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        ([corrupt_column("a")], "a at 0"),
        ([SOUND, corrupt_column("b"), corrupt_column("c")], "b at 0"),
        ([flipped_column("a", 5000), corrupt_column("b")], "a 0 4"),
        ([SOUND, flipped_column("b", 15_000), SOUND, flipped_column("d", 0)], "b 0 14"),
        ([SOUND, corrupt_column("b"), flipped_column("c", 0)], "b at 0"),
        ([SOUND, SOUND, SOUND, SOUND, SOUND, flipped_column("f", 700)], "f 0 0"),
    ],
    ids=["checks", "checks later", "digest first", "digest later", "check first", "last"],
)
def test_the_first_failure_of_the_first_column_is_raised_and_all_memory_is_free(
    columns: list[KvColumn], first: str
) -> None:
    staging = small_staging()
    for _ in range(10):
        with pytest.raises(FileCorrupt) as failure:
            list(folded([all_rows(column) for column in columns], staging))
        assert failure.value.column == first
        assert len(staging.free) == 3
    (found,) = folded([all_rows(SOUND)], staging)
    np.testing.assert_array_equal(found, checksums(SOUND.data))


class Shrinking(WindowedColumn):
    """Its windows end in an error, as a file's that lost its end."""

    def windows(self) -> Iterator[object]:
        for window in super().windows():
            if window.first_row > 10:
                raise FileCorrupt("gone", column=self.name)
            yield window


@pytest.mark.parametrize("damaged_before", [False, True])
def test_a_walk_that_ends_in_an_error_is_later_than_what_was_wrong_before(
    damaged_before: bool,
) -> None:
    data = np.zeros((60, 64), dtype=np.uint8)
    shrinking = Shrinking(data=data, read_bytes=64, window_rows=2, name="shrinking")
    before = flipped_column("before", 100) if damaged_before else SOUND
    with pytest.raises(FileCorrupt) as failure:
        list(folded([all_rows(before), all_rows(shrinking)], small_staging()))
    assert failure.value.column == ("before 0 0" if damaged_before else "shrinking")


def test_a_consumer_that_stops_leaves_all_memory_free() -> None:
    staging = small_staging()
    hashes = folded([all_rows(SOUND)] * 9, staging)
    np.testing.assert_array_equal(next(hashes), checksums(SOUND.data))
    hashes.close()
    assert len(staging.free) == 3
    (found,) = folded([all_rows(SOUND)], staging)
    np.testing.assert_array_equal(found, checksums(SOUND.data))


def test_a_device_that_fails_is_no_corrupt_file() -> None:
    def failing(_buffer: Buffer, _work: Work) -> None:
        raise DeviceFailed("gone", hint="look at it")

    staging = small_staging()
    pipeline = FoldPipeline(
        [all_rows(SOUND)], staging=staging, kernels=failing, on_device=nullcontext
    )
    with pytest.raises(DeviceFailed):
        list(pipeline.hashes())
    assert len(staging.free) == 3


def test_a_shipment_has_no_more_rows_than_there_shall_be_memory_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fold_pipeline, "MAX_ROWS", 128)
    num_rows = []

    def counting(buffer: Buffer, work: Work) -> None:
        num_rows.append(work.num_rows)
        kernels(buffer, work)

    column = digested_column(num_rows=500, row_bytes=16)
    staging = small_staging()
    pipeline = FoldPipeline(
        [all_rows(column)], staging=staging, kernels=counting, on_device=nullcontext
    )
    (found,) = pipeline.hashes()
    np.testing.assert_array_equal(found, checksums(column.data))
    assert set(num_rows) == {128, 500 % 128}
    assert staging.device_bytes == 3 * (BUFFER_BYTES + 256 + (128 + 4) * 8) + 128 * 8


def test_windows_that_prove_themselves_are_checked_once_each() -> None:
    column = random_column(num_rows=60, row_bytes=16, read_bytes=16, window_rows=7)
    (found,) = folded([FoldJob(column, np.array([0, 6, 30]))], small_staging())
    np.testing.assert_array_equal(found, checksums(column.data[[0, 6, 30]]))
    assert sorted(column.checked) == [0, 28]
