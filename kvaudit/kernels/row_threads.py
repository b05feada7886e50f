"""Threads of our own for compiled functions that release the GIL.

numba's prange aborts the process under concurrent callers; these threads are shared by all callers
of a process. A caller works too and never waits for a free thread, so no call can block another.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

_Task = TypeVar("_Task")

_thread = threading.local()


def num_threads() -> int:
    """Threads that work on one job: the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, num_threads() - 1), thread_name_prefix="kvaudit-rows")


def drain(
    tasks: Iterator[_Task], run: Callable[[_Task], object], *, max_threads: int | None = None
) -> None:
    """Call run(task) for every task, on whichever thread is free.

    Tasks are taken in order, one at a time: the iterator is never in use by two threads. A call
    from within a task runs on the calling thread.

    Args:
        tasks: what there is to do; none of them is None.
        run: does one; several run at once.
        max_threads: how many threads could have something to do; None: any number.

    Raises:
        Exception: what the iterator or the first task in order that failed raised; no task is begun
            after a failure.
    """
    most = num_threads() if max_threads is None else min(num_threads(), max_threads)
    if most <= 1 or getattr(_thread, "in_task", False):
        for task in tasks:
            run(task)
        return
    taking = threading.Lock()
    numbers = itertools.count()
    failures: dict[int, BaseException] = {}

    def work() -> None:
        _thread.in_task = True
        number = 0
        try:
            while True:
                with taking:
                    if failures:
                        return
                    number = next(numbers)
                    task = next(tasks, None)
                if task is None:
                    return
                run(task)
        except BaseException as error:
            failures[number] = error
            if not isinstance(error, Exception):
                raise  # an interrupt of the caller wins
        finally:
            _thread.in_task = False

    futures = [_helpers().submit(work) for _ in range(most - 1)]
    try:
        work()
    finally:
        # A helper that has not begun is busy elsewhere, and nothing is left for it to do.
        wait([future for future in futures if not future.cancel()])
    if failures:
        # Tasks before a failing one were begun before it: whichever ends last, the first is known.
        raise failures[min(failures)]


def begin(call: Callable[[], object]) -> Future[None]:
    """Have another thread make a call, in the order in which calls are begun.

    Threads that find the next call waiting stay at work, where `drain` wakes them anew each time,
    which takes as long as a small task. A call begun from within a task is made at once: whoever
    waited for a free thread there could be the last one.

    Returns:
        what holds the exception of the call, once it is done.
    """
    if not getattr(_thread, "in_task", False):
        return _helpers().submit(_in_task, call)
    done: Future[None] = Future()
    try:
        call()
    except Exception as error:  # noqa: BLE001 - as another thread would keep it
        done.set_exception(error)
    else:
        done.set_result(None)
    return done


def _in_task(call: Callable[[], object]) -> None:
    _thread.in_task = True
    try:
        call()
    finally:
        _thread.in_task = False


def run_rows(
    rows_function: Callable[[int, int], object], num_rows: int, *, rows_per_task: int
) -> None:
    """Call rows_function(first_row, last_row) over all rows, in tasks of rows_per_task.

    Raises:
        Exception: as in `drain`.
    """
    if 0 < num_rows <= rows_per_task:
        rows_function(0, num_rows)
        return
    first_rows = range(0, num_rows, rows_per_task)

    def run_from(first_row: int) -> None:
        rows_function(first_row, min(num_rows, first_row + rows_per_task))

    drain(iter(first_rows), run_from, max_threads=len(first_rows))
