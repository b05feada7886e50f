"""The machine of a CUDA device: times are those of the device, read from memory and not from L2.

Before every timed launch a scratch buffer is overwritten, which leaves nothing of the workload in
the L2 cache. It is overwritten often enough that the host has enqueued all of the launch meanwhile:
what is timed is what a queue of launches, or a CUDA graph, would take.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.kernel_set import kernel_set
from kvaudit.bench.kernels import device_memory
from kvaudit.bench.machine import YARDSTICK_REPEATS, Direction, yardstick_words
from kvaudit.constants import WORD_BYTES
from kvaudit.core.bench_report import Yardstick
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import SIMULATED, cuda

# Several times any L2; in the simulator each word is a turn of a Python loop.
SCRATCH_BYTES = 1 << 10 if SIMULATED else 512 << 20
_MIN_SCRUBS = 3
_MAX_SCRUBS = 100
# By how much one of them outlasts the time to enqueue it, on a device of 5 TB/s.
_SCRUB_LEAD_SECONDS = 40e-6
_SECONDS_PER_MS = 1e-3


class CudaMachine:
    """The kernels of the current CUDA device, on arrays in its memory."""

    is_device = True

    def __init__(self) -> None:
        self.kernels = kernel_set("numba_cuda")
        self._scratch = cuda.device_array(SCRATCH_BYTES // WORD_BYTES, dtype=np.uint64)

    def place(
        self,
        array: NDArray[np.generic],
        *,
        writeable: bool = False,  # noqa: ARG002 - a copy may be
    ) -> KernelArray:
        """A copy of the array on the device."""
        return cuda.to_device(np.ascontiguousarray(array))

    def fetch(self, array: KernelArray) -> NDArray[np.generic]:
        """A copy in host memory."""
        host: NDArray[np.generic] = array.copy_to_host()
        return host

    def zero(self, words: KernelArray) -> None:
        """Enqueue: all words, shape [n], uint64, become 0."""
        device_memory.launch_fill(words, 0, device_memory.SHAPES[-1])

    def seconds(self, call: Callable[[], None], *, repeats: int) -> list[float]:
        """Time on the device between two events around what a call enqueues."""
        num_scrubs = _num_scrubs(call)
        seconds = []
        for _ in range(repeats):
            begin, end = cuda.event(), cuda.event()
            for _ in range(num_scrubs):
                device_memory.launch_fill(self._scratch, 1, device_memory.SHAPES[-1])
            begin.record()
            call()
            end.record()
            end.synchronize()
            seconds.append(begin.elapsed_time(end) * _SECONDS_PER_MS)
        return seconds

    def yardstick(self, direction: Direction, num_bytes: int) -> Yardstick:
        """The best of several launch shapes."""
        words = cuda.device_array(yardstick_words(num_bytes), dtype=np.uint64)
        self.zero(words)
        sink = cuda.device_array(1, dtype=np.uint64)

        def touch(shape: tuple[int, int]) -> None:
            if direction == "read":
                device_memory.launch_read(words, sink, shape)
            else:
                device_memory.launch_fill(words, 1, shape)

        best = min(
            seconds
            for shape in device_memory.SHAPES
            for seconds in self.seconds(lambda: touch(shape), repeats=YARDSTICK_REPEATS)  # noqa: B023 - called here
        )
        return Yardstick(name=direction, gb_per_s=words.nbytes / best / 1e9)

    @staticmethod
    def free_bytes() -> int:
        """Device memory that is free now."""
        return int(cuda.current_context().get_memory_info().free)


def _num_scrubs(call: Callable[[], None]) -> int:
    """How often the scratch is overwritten while a call is enqueued; the call is made twice."""
    call()
    cuda.synchronize()
    started = time.perf_counter()
    call()
    enqueuing = time.perf_counter() - started
    cuda.synchronize()
    return min(_MIN_SCRUBS + math.ceil(enqueuing / _SCRUB_LEAD_SECONDS), _MAX_SCRUBS)
