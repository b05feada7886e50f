"""What every benchmark here shares: repeats, and the parallel read rate of the same run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit.kernels.row_threads import num_threads, run_rows

_WORDS_PER_TASK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of several repeats.

    Fields:
        median: the middle one.
        best: the least.
        core: the least seconds of all cores together, which other work on the machine hardly moves.
    """

    median: float
    best: float
    core: float

    def per_second(self, amount: float) -> str:
        """An amount a second, median and best, for people: amounts are in units of 1e9 or 1e6."""
        return f"{amount / self.median:.2f} (best {amount / self.best:.2f})"


def measure(call: Callable[[], object], *, repeats: int = 7) -> Timing:
    """Time a call after one warm-up."""
    call()
    seconds, core_seconds = [], []
    for _ in range(repeats):
        started, started_core = time.perf_counter(), time.process_time()
        call()
        seconds.append(time.perf_counter() - started)
        core_seconds.append(time.process_time() - started_core)
    return Timing(median=float(np.median(seconds)), best=min(seconds), core=min(core_seconds))


@njit(nogil=True)
def _sum_words(words: Any) -> Any:
    total = np.uint64(0)
    for word in words:
        total += word
    return total


def read_timing(memory: NDArray[np.uint8]) -> Timing:
    """How long all threads take to read the memory once; its size is a multiple of 8."""
    words = memory.reshape(-1).view(np.uint64)

    def read() -> None:
        run_rows(
            lambda first, last: _sum_words(words[first:last]),
            words.shape[0],
            rows_per_task=_WORDS_PER_TASK,
        )

    return measure(read)


def machine_line() -> str:
    """Threads and load, so that a figure can be judged."""
    return f"{num_threads()} threads, load {os.getloadavg()[0]:.1f}"
