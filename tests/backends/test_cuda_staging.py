"""Buffers on their way to the device; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.cuda_staging import Buffer, Staging
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]


def test_bytes_of_a_buffer_arrive_on_the_device_and_are_seen_as_rows_and_words() -> None:
    buffer, stream = Buffer(1024), cuda.stream()
    for num_bytes in (1024, 40):
        buffer.host[:num_bytes] = np.arange(num_bytes) % 251 + num_bytes % 3
        buffer.upload(num_bytes, stream=stream)
        buffer.record_use(stream)
        buffer.wait()
        rows = buffer.rows(10, 3, 7).copy_to_host()
        np.testing.assert_array_equal(rows, buffer.host[10:31].reshape(3, 7))
        words = buffer.words.copy_to_host()[: num_bytes // 8]
        np.testing.assert_array_equal(words, buffer.host[:num_bytes].view(np.uint64))
    assert buffer.device_bytes == 1024 + 64


def test_all_buffers_and_lanes_are_free_after_a_walk_that_was_given_up() -> None:
    staging = Staging(buffer_bytes=1024, num_buffers=3)
    buffers = list(staging.buffers)
    staging.buffers.popleft()
    lanes = [staging.take_lane() for _ in range(2)]
    staging.reset()
    assert list(staging.buffers) == buffers
    assert {staging.take_lane() for _ in range(2)} == set(lanes)


def test_a_lane_is_made_when_none_is_free_and_taken_again_when_it_is() -> None:
    staging = Staging(buffer_bytes=1024, num_buffers=2)
    first, second = staging.take_lane(), staging.take_lane()
    assert first is not second
    staging.give_back_lane(first)
    assert staging.take_lane() is first
    second.begin(10)
    assert staging.device_bytes == 2 * (1024 + 64) + 80


def test_slots_count_from_zero_and_are_kept() -> None:
    staging = Staging(buffer_bytes=1024, num_buffers=2)
    for num_rows in (4, 9, 3):
        np.testing.assert_array_equal(staging.slots(num_rows).copy_to_host(), np.arange(num_rows))
    assert staging.device_bytes == 2 * (1024 + 64) + 72
