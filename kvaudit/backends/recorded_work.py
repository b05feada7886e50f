"""Work of a stream, recorded once: to enqueue it again is one call of the driver.

numba-cuda needs around 0.1 ms of the interpreter for each launch or copy, to describe its arrays.
What a buffer's work takes of that is more than the device takes for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from kvaudit.errors import DeviceFailed
from kvaudit.kernels.cuda_module import SIMULATED, Stream, cuda

Enqueue: TypeAlias = Callable[[], None]


def recorded(enqueue: Enqueue, stream: Stream) -> Enqueue:
    """What a call enqueues on a stream, as a CUDA graph; in the simulator the call itself.

    Args:
        enqueue: enqueues the work, and allocates nothing; its kernels are loaded. It is kept, and
            with it the memory that it works on.
        stream: where the work is enqueued, now and later, while its device is the current one.

    Returns:
        what enqueues the work again.

    Raises:
        DeviceFailed: the driver could not record it.
    """
    return enqueue if SIMULATED else _Graph(enqueue, stream)


class _Graph:
    """A recorded call."""

    def __init__(self, enqueue: Enqueue, stream: Stream) -> None:
        from cuda.bindings import driver

        self._kept = enqueue
        self._stream = int(stream)
        self._launch = driver.cuGraphLaunch
        # Other threads may go on allocating meanwhile; what this one frees is freed later.
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        with cuda.defer_cleanup():
            _checked(driver.cuStreamBeginCapture(self._stream, mode))
            try:
                enqueue()
            finally:
                (graph,) = _checked(driver.cuStreamEndCapture(self._stream))
        (self._executable,) = _checked(driver.cuGraphInstantiate(graph, 0))
        _checked(driver.cuGraphDestroy(graph))
        weakref.finalize(self, driver.cuGraphExecDestroy, self._executable).atexit = False

    def __call__(self) -> None:
        _checked(self._launch(self._executable, self._stream))


def _checked(outcome: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call of the driver returned beside its status."""
    status, *values = outcome
    if status:
        raise DeviceFailed(
            f"the CUDA device: {status.name}",
            hint="look at the device with nvidia-smi, or run it on the CPU",
        )
    return tuple(values)
