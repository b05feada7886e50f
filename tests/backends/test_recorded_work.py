"""Work of a stream that is enqueued again; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from kvaudit.backends.recorded_work import recorded
from kvaudit.errors import DeviceFailed
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]


def test_what_was_recorded_is_done_again_with_what_its_memory_holds_by_then() -> None:
    stream, host = cuda.stream(), cuda.pinned_array(8, dtype=np.uint64)
    on_device, returned = cuda.device_array(8, dtype=np.uint64), cuda.pinned_array(8, np.uint64)

    def enqueue() -> None:
        on_device.copy_to_device(host, stream=stream)
        on_device.copy_to_host(returned, stream=stream)

    returned[:] = 0
    again = recorded(enqueue, stream)
    for value in (1, 2):
        host[:] = value
        again()
        stream.synchronize()
        assert returned.tolist() == [value] * 8


@pytest.mark.skipif(SIMULATED, reason="the simulator has no graphs")
def test_recording_does_nothing_yet_and_keeps_the_memory_of_the_work() -> None:
    stream, returned = cuda.stream(), cuda.pinned_array(8, dtype=np.uint64)
    returned[:] = 7

    def copying() -> object:
        on_device = cuda.to_device(np.arange(8, dtype=np.uint64))
        return recorded(lambda: on_device.copy_to_host(returned, stream=stream), stream)

    again = copying()
    gc.collect()
    taken = [cuda.to_device(np.zeros(8, dtype=np.uint64)) for _ in range(64)]
    assert returned.tolist() == [7] * 8
    again()
    stream.synchronize()
    assert returned.tolist() == list(range(8))
    assert len(taken) == 64


@pytest.mark.skipif(SIMULATED, reason="the simulator has no graphs")
def test_work_that_cannot_be_recorded_is_the_devices_failure_and_the_stream_goes_on() -> None:
    stream = cuda.stream()
    with pytest.raises(DeviceFailed):
        recorded(stream.synchronize, stream)
    stream.synchronize()
