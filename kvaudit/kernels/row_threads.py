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


def feed(tasks: Iterator[_Task], run: Callable[[_Task], object]) -> None:
    """Call run(task) for every task on the other threads, which begin them in order.

    The caller only takes tasks, and may wait for what a task needs; the tasks of several callers
    mix. So threads that are at work stay at work: to wake one takes as long as a small task. A call
    from within a task runs on the calling thread.

    Args:
        tasks: what there is to do; used by the calling thread alone.
        run: does one; several run at once.

    Raises:
        Exception: what the first task in order that failed raised, else what the iterator raised;
            no task is begun after a failure.
    """
    if getattr(_thread, "in_task", False):
        for task in tasks:
            run(task)
        return
    failures: dict[int, BaseException] = {}
    futures: list[Future[None]] = []
    try:
        for number, task in enumerate(tasks):
            if failures:
                break
            futures.append(_helpers().submit(_run_unless_failed, run, task, number, failures))
    except Exception as error:  # noqa: BLE001 - raised below, unless an earlier task failed
        failures[len(futures)] = error
    finally:
        wait(futures)
    if failures:
        raise failures[min(failures)]


def _run_unless_failed(
    run: Callable[[_Task], object], task: _Task, number: int, failures: dict[int, BaseException]
) -> None:
    """Run a task of `feed`, but for one that follows a failure."""
    if failures and number > min(failures):
        return
    _thread.in_task = True
    try:
        run(task)
    except BaseException as error:  # noqa: BLE001 - the caller raises it
        failures[number] = error
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
