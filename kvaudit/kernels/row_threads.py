"""Threads of our own for compiled functions that release the GIL.

numba's prange aborts the process under concurrent callers; these threads are shared by all callers
of a process. A caller works too and never waits for a free thread, so no call can block another.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_thread = threading.local()


def num_threads() -> int:
    """Threads that work on one job: the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, num_threads() - 1), thread_name_prefix="kvaudit-rows")


def run_rows(
    rows_function: Callable[[int, int], object], num_rows: int, *, rows_per_task: int
) -> None:
    """Call rows_function(first_row, last_row) over all rows, in tasks of rows_per_task.

    Tasks are taken in ascending order by whichever thread is free; a job of one task, and a call
    from within a task, run on the calling thread.

    Raises:
        Exception: the first one that a task raised; tasks not yet begun are dropped.
    """
    num_tasks = -(-num_rows // rows_per_task)
    num_helpers = min(num_threads(), num_tasks) - 1
    if num_helpers < 1 or getattr(_thread, "in_task", False):
        for task in range(num_tasks):
            rows_function(task * rows_per_task, min(num_rows, (task + 1) * rows_per_task))
        return
    # next() of a count is one step under the GIL: no two threads take the same task.
    tasks = itertools.count()
    stopped = threading.Event()

    def work() -> None:
        _thread.in_task = True
        try:
            while not stopped.is_set() and (task := next(tasks)) < num_tasks:
                rows_function(task * rows_per_task, min(num_rows, (task + 1) * rows_per_task))
        except BaseException:
            stopped.set()
            raise
        finally:
            _thread.in_task = False

    futures = [_helpers().submit(work) for _ in range(num_helpers)]
    try:
        work()
    finally:
        # A helper that has not begun is busy elsewhere, and nothing is left for it to do.
        started = [future for future in futures if not future.cancel()]
        failures = [failure for future in started if (failure := future.exception()) is not None]
    if failures:
        raise failures[0]
