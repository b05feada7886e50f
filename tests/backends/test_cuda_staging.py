"""Chunks on their way to the device; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from kvaudit.backends.cuda_staging import Chunk, FoldLane, Staging
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]
PATIENCE_S = 30


def test_rows_of_a_chunk_arrive_on_the_device() -> None:
    chunk, stream = Chunk(64), cuda.stream()
    for num_rows in (8, 3):
        chunk.rows(num_rows, 8)[...] = np.arange(num_rows * 8).reshape(num_rows, 8) + num_rows
        twin = chunk.upload(num_rows, 8, stream=stream)
        chunk.record_use(stream)
        chunk.wait()
        np.testing.assert_array_equal(twin.copy_to_host(), chunk.rows(num_rows, 8))


def test_chunks_take_turns() -> None:
    staging, never = Staging(chunk_bytes=8, num_chunks=3), threading.Event()
    first, second = staging.take(never), staging.take(never)
    staging.give_back(second)
    staging.give_back(first)
    third, *again = (staging.take(never) for _ in range(3))
    assert third not in (first, second)
    assert again == [second, first]
    assert staging.device_bytes == 24


def test_whoever_waits_for_a_chunk_gets_the_next_one_that_is_given_back() -> None:
    staging, never = Staging(chunk_bytes=8, num_chunks=1), threading.Event()
    chunk, taken = staging.take(never), []
    waiting = threading.Thread(target=lambda: taken.append(staging.take(never)))
    waiting.start()
    staging.give_back(chunk)
    waiting.join(PATIENCE_S)
    assert taken == [chunk]


def test_whoever_has_stopped_waits_no_more_and_takes_none() -> None:
    staging, stopped = Staging(chunk_bytes=8, num_chunks=1), threading.Event()
    chunk, taken = staging.take(stopped), []
    waiting = threading.Thread(target=lambda: taken.append(staging.take(stopped)))
    waiting.start()
    stopped.set()
    staging.wake()
    waiting.join(PATIENCE_S)
    assert taken == [None]
    staging.give_back(chunk)
    assert staging.take(stopped) is None
    assert staging.take(threading.Event()) is chunk


def test_a_lane_keeps_its_memory_from_column_to_column() -> None:
    lane = FoldLane()
    hashes, slots = lane.hashes(5), lane.slots(4)
    assert lane.hashes(5) is hashes
    assert lane.slots(3) is slots
    np.testing.assert_array_equal(slots.copy_to_host(), np.arange(4))
    assert lane.num_bytes == 72
    np.testing.assert_array_equal(lane.slots(9).copy_to_host(), np.arange(9))
    assert lane.hashes(2).shape[0] == 2
    assert lane.num_bytes == 88


def test_hashes_return_as_they_are_on_the_device() -> None:
    lane = FoldLane()
    hashes = lane.hashes(3)
    hashes.copy_to_device(np.array([1, 2**63, 3], dtype=np.uint64))
    assert lane.returned(hashes).tolist() == [1, 2**63, 3]
