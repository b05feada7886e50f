"""Work of a stream, recorded once: to enqueue it again is one call of the driver.

numba-cuda needs around 0.1 ms of the interpreter for each launch or copy, to describe its arrays.
What a buffer's work takes of that is more than the device takes for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.errors import DeviceFailed
from kvaudit.kernels.cuda_module import SIMULATED, Stream, cuda

Enqueue: TypeAlias = Callable[[], None]


def side_stream() -> Stream:
    """A stream that has nothing to do with the default one, and is not ordered after it either.

    While work of another kind of stream is recorded, whoever uses the default one fails: torch does.
    What work on this one reads is copied on it, or is there before: a copy of pageable memory on the
    default one may return earlier.
    """
    if SIMULATED:
        return cuda.stream()
    from cuda.bindings import driver

    (handle,) = _checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    stream = cuda.external_stream(int(handle))
    weakref.finalize(stream, driver.cuStreamDestroy, handle).atexit = False
    return stream


def recorded(enqueue: Enqueue, stream: Stream) -> Enqueue:
    """What a call enqueues on a stream, as a CUDA graph, or the call itself where none can be made.

    Args:
        enqueue: enqueues the work, and allocates nothing; its kernels are loaded. The memory that
            it works on has to live as long as the work is enqueued again.
        stream: a `side_stream`, on which the work is enqueued, now and later, while its device is
            the current one.

    Returns:
        what enqueues the work again.
    """
    if SIMULATED:
        return enqueue
    try:
        with cuda_errors_translated():
            return _Graph(enqueue, stream)
    except DeviceFailed:
        # If it is the call that fails, it says so when it is made.
        return enqueue


class _Graph:
    """A recorded call, of which it keeps nothing: what keeps it may be kept by that."""

    def __init__(self, enqueue: Enqueue, stream: Stream) -> None:
        from cuda.bindings import driver

        self._stream = int(stream)
        self._launch = driver.cuGraphLaunch
        # What Python collects meanwhile may be anyone's: it may be freed, and numba-cuda's is later.
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
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
    """What a call of the driver returned beside its status.

    Raises:
        DeviceFailed: it failed.
    """
    status, *values = outcome
    if status:
        raise DeviceFailed(
            f"the CUDA device: {status.name}",
            hint="look at the device with nvidia-smi, or run it on the CPU",
        )
    return tuple(values)
