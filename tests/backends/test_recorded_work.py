"""Work of a stream that is enqueued again; runs in the simulator's process of test_cuda.py."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kvaudit.backends.recorded_work import recorded, side_stream
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import SIMULATED, cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not SIMULATED and not cuda.is_available(),
        reason="no CUDA device; the simulator runs it in a process of its own",
    ),
]


def test_what_was_recorded_is_done_again_with_what_its_memory_holds_by_then() -> None:
    stream, host = side_stream(), cuda.pinned_array(8, dtype=np.uint64)
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


def arrived(values: np.ndarray) -> KernelArray:
    """A copy on the device that is there: a side stream does not wait for the default one."""
    on_device = cuda.to_device(values)
    cuda.synchronize()
    return on_device


needs_graphs = pytest.mark.skipif(SIMULATED, reason="the simulator has no graphs")


@needs_graphs
def test_recording_does_nothing_yet_and_keeps_nothing_of_the_call() -> None:
    stream, host = side_stream(), cuda.pinned_array(8, dtype=np.uint64)
    on_device = arrived(np.arange(8, dtype=np.uint64))

    class Call:
        def __call__(self) -> None:
            on_device.copy_to_host(host, stream=stream)

    host[:] = 7
    call = Call()
    kept = weakref.ref(call)
    again = recorded(call, stream)
    del call
    assert kept() is None
    assert host.tolist() == [7] * 8
    again()
    stream.synchronize()
    assert host.tolist() == list(range(8))


@needs_graphs
def test_work_that_cannot_be_recorded_is_enqueued_as_it_is_and_the_stream_goes_on() -> None:
    stream = side_stream()
    assert recorded(stream.synchronize, stream) == stream.synchronize
    stream.synchronize()


@needs_graphs
def test_frees_and_the_default_stream_do_not_end_a_recording() -> None:
    """Whatever else the process does meanwhile, and whatever Python collects."""
    stream, returned = side_stream(), cuda.pinned_array(8, dtype=np.uint64)
    on_device = arrived(np.arange(8, dtype=np.uint64))
    older = recorded(lambda: on_device.copy_to_host(returned, stream=stream), stream)
    owned = [older, cuda.stream(), cuda.event(), cuda.pinned_array(8), side_stream()]
    owned.append(cuda.to_device(np.zeros(1 << 20)))

    def enqueue() -> None:
        owned.clear()
        cuda.to_device(np.zeros(8))
        with ThreadPoolExecutor(1) as others:
            others.submit(cuda.to_device, np.zeros(8)).result()
        on_device.copy_to_host(returned, stream=stream)

    del older
    again = recorded(enqueue, stream)
    assert again is not enqueue
    again()
    stream.synchronize()
    assert returned.tolist() == list(range(8))
