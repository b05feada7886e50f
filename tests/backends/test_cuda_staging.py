"""Buffers on their way to the device; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import threading

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
PATIENCE_S = 30


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


def test_buffers_take_turns() -> None:
    staging, never = Staging(buffer_bytes=1024, num_buffers=3), threading.Event()
    first, second = staging.take(never), staging.take(never)
    staging.give_back(second)
    staging.give_back(first)
    third, *again = (staging.take(never) for _ in range(3))
    assert third not in (first, second)
    assert again == [second, first]
    assert staging.device_bytes == 3 * (1024 + 64)


def test_whoever_waits_for_a_buffer_gets_the_next_one_that_is_given_back() -> None:
    staging, never = Staging(buffer_bytes=1024, num_buffers=1), threading.Event()
    buffer, taken = staging.take(never), []
    waiting = threading.Thread(target=lambda: taken.append(staging.take(never)))
    waiting.start()
    staging.give_back(buffer)
    waiting.join(PATIENCE_S)
    assert taken == [buffer]


def test_whoever_has_stopped_waits_no_more_and_takes_none() -> None:
    staging, stopped = Staging(buffer_bytes=1024, num_buffers=1), threading.Event()
    buffer, taken = staging.take(stopped), []
    waiting = threading.Thread(target=lambda: taken.append(staging.take(stopped)))
    waiting.start()
    stopped.set()
    staging.wake()
    waiting.join(PATIENCE_S)
    assert taken == [None]
    staging.give_back(buffer)
    assert staging.take(stopped) is None
    assert staging.take(threading.Event()) is buffer
