"""Where a workload's arrays lie, what launches on them, and what times it: the port and the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.kernel_set import KernelSet, kernel_set
from kvaudit.bench.free_memory import free_host_bytes
from kvaudit.bench.kernels import host_memory
from kvaudit.constants import WORD_BYTES
from kvaudit.core.bench_report import Yardstick
from kvaudit.kernels.array_forms import KernelArray, read_only

# A bandwidth is measured over as many bytes as the launch moves, and not over more than this.
MAX_YARDSTICK_BYTES: Final = 4 << 30
# Even at the smallest size a bandwidth is not that of a launch's own overhead.
MIN_YARDSTICK_BYTES: Final = 1 << 20
YARDSTICK_REPEATS: Final = 7

Direction = Literal["read", "write"]


class Machine(Protocol):
    """One implementation's kernels, and the memory that they work on."""

    @property
    def kernels(self) -> KernelSet:
        """The launchers."""
        ...

    @property
    def is_device(self) -> bool:
        """Whether engine-shaped launches can run here: they are kernels of a device."""
        ...

    def free_bytes(self) -> int | None:
        """Memory of the kernels that is free now; None where nobody says."""
        ...

    def place(self, array: NDArray[np.generic], *, writeable: bool = False) -> KernelArray:
        """An array where the kernels read it, or read and write it."""
        ...

    def fetch(self, array: KernelArray) -> NDArray[np.generic]:
        """What is in it now, in host memory; waits for what is enqueued."""
        ...

    def seconds(self, call: Callable[[], None], *, repeats: int) -> list[float]:
        """How long what a call enqueues takes, once warm, each time from memory."""
        ...

    def yardstick(self, direction: Direction, num_bytes: int) -> Yardstick:
        """The best bandwidth over about so many bytes."""
        ...


class HostMachine:
    """The kernels of the CPU, or the reference, on arrays in host memory.

    Args:
        implementation: whose kernels.
    """

    is_device = False

    def __init__(self, implementation: Literal["reference", "numba_cpu"]) -> None:
        self.kernels = kernel_set(implementation)

    def free_bytes(self) -> int | None:
        """Host memory that this process may still take."""
        return free_host_bytes()

    def place(self, array: NDArray[np.generic], *, writeable: bool = False) -> KernelArray:
        """The array itself, in the form that the kernels are compiled for."""
        return array if writeable else read_only(array)

    def fetch(self, array: KernelArray) -> NDArray[np.generic]:
        """The array itself."""
        host: NDArray[np.generic] = array
        return host

    def seconds(self, call: Callable[[], None], *, repeats: int) -> list[float]:
        """Wall time of a call, after one that is not timed."""
        call()
        return wall_seconds(call, repeats=repeats)

    def yardstick(self, direction: Direction, num_bytes: int) -> Yardstick:
        """All cores at once over fresh memory."""
        words = np.ones(yardstick_words(num_bytes), dtype=np.uint64)

        def touch() -> None:
            if direction == "read":
                host_memory.read_words(words)
            else:
                host_memory.fill_words(words, 1)

        best = min(self.seconds(touch, repeats=YARDSTICK_REPEATS))
        return Yardstick(name=direction, gb_per_s=words.nbytes / best / 1e9)


def wall_seconds(call: Callable[[], object], *, repeats: int) -> list[float]:
    """Wall time of each of several calls."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds


def yardstick_words(num_bytes: int) -> int:
    """Words of the memory that a bandwidth is measured over; an even number."""
    bounded = min(max(num_bytes, MIN_YARDSTICK_BYTES), MAX_YARDSTICK_BYTES)
    return bounded // (2 * WORD_BYTES) * 2
