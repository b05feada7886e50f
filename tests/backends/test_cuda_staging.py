"""Buffers on their way to the device and back; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends import cuda_staging
from kvaudit.backends.cuda_staging import Buffer, Staging, Work
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]

BUFFER_BYTES = 2048


def work_of(num_bytes: int = BUFFER_BYTES, *, first_byte: int = 8, num_rows: int = 5) -> Work:
    return Work(
        num_bytes=num_bytes,
        first_byte=first_byte,
        num_rows=num_rows,
        row_bytes=16,
        read_bytes=16,
        num_chunks=2,
        chunk_bytes=1024,
    )


def copy_words(buffer: Buffer, work: Work) -> None:
    """What stands for kernels: a row's first word is its hash, the first words are digests."""
    rows = buffer.rows(work)
    first = work.first_byte // 8
    every_other = buffer.words[first : first + 2 * work.num_rows : 2]
    assert rows.shape == (work.num_rows, work.row_bytes)
    _copy[1, 1, buffer.stream](every_other, buffer.hashes(work))
    _copy[1, 1, buffer.stream](buffer.words, buffer.digests(work))


@cuda.jit
def _copy(source, target):
    for at in range(target.shape[0]):
        target[at] = source[at]


def buffer_with_room(num_rows: int = 5) -> Buffer:
    buffer = Buffer(BUFFER_BYTES)
    buffer.make_room(num_rows)
    return buffer


@pytest.mark.filterwarnings("ignore:.*Grid size")
def test_every_work_has_the_results_of_the_bytes_that_are_there_by_then() -> None:
    """Also once it was recorded, and beside works of other sizes, more than are kept."""
    buffer = buffer_with_room()
    random = np.random.default_rng(3)
    works = [work_of(), work_of(1024, first_byte=0), work_of(num_rows=3)]
    works += [work_of(num_bytes) for num_bytes in range(512, 1024, 64)]
    assert len(works) > cuda_staging._MOST_RECORDED
    for work in [works[0], *works[:3], *works[:3], *works, works[1]]:
        buffer.host[:] = random.integers(0, 256, BUFFER_BYTES, dtype=np.uint8)
        sent = buffer.host[: work.num_bytes].view(np.uint64).copy()
        buffer.begin(work, copy_words)
        hashes, digests = buffer.results(work)
        first = work.first_byte // 8
        expected = sent[first : first + 2 * work.num_rows : 2]
        np.testing.assert_array_equal(hashes, expected)
        np.testing.assert_array_equal(digests, sent[:2])


@pytest.mark.filterwarnings("ignore:.*Grid size")
def test_what_was_recorded_is_forgotten_with_the_memory_of_its_results() -> None:
    buffer = buffer_with_room()
    for num_rows in (5, 50, 5):
        buffer.make_room(num_rows)
        for value in (1, 2, 3):
            work = work_of(num_rows=num_rows)
            buffer.host[:] = value
            buffer.begin(work, copy_words)
            hashes, digests = buffer.results(work)
            word = int.from_bytes([value] * 8, "little")
            assert set(hashes.tolist()) | set(digests.tolist()) == {word}


def test_a_buffer_says_what_it_holds_on_the_device() -> None:
    buffer = Buffer(BUFFER_BYTES)
    assert buffer.device_bytes == 2048 + 128 + 2 * 8
    buffer.make_room(9)
    assert buffer.device_bytes == 2048 + 128 + (9 + 2) * 8


def test_all_buffers_are_free_after_a_walk_that_was_given_up() -> None:
    staging = Staging(buffer_bytes=1024, num_buffers=3)
    buffers = list(staging.free)
    staging.free.popleft()
    staging.reset()
    assert list(staging.free) == buffers


def test_slots_count_from_zero_for_as_many_rows_as_there_is_room_for() -> None:
    staging = Staging(buffer_bytes=1024, num_buffers=2)
    assert not staging.has_room(1)
    for most_rows in (4, 9):
        staging.make_room(most_rows)
        assert staging.has_room(most_rows)
        assert not staging.has_room(most_rows + 1)
        np.testing.assert_array_equal(staging.slots(3).copy_to_host(), np.arange(3))
    assert staging.device_bytes == 2 * (1024 + 64 + (9 + 1) * 8) + 72
