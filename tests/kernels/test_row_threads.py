"""Threads over rows: every row once, exceptions reach the caller, callers never block each other."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kvaudit.kernels import row_threads
from kvaudit.kernels.row_threads import begin, drain, num_threads, run_rows


def covered(num_rows, rows_per_task):
    counts = np.zeros(num_rows, dtype=np.int64)

    def count(first, last):
        counts[first:last] += 1

    run_rows(count, num_rows, rows_per_task=rows_per_task)
    return counts


@pytest.mark.parametrize(
    ("num_rows", "rows_per_task"), [(0, 5), (1, 5), (5, 5), (1001, 7), (64, 1)]
)
def test_run_rows_gives_each_row_to_exactly_one_task(num_rows, rows_per_task):
    assert (covered(num_rows, rows_per_task) == 1).all()


def test_run_rows_keeps_a_job_of_one_task_on_the_calling_thread():
    seen = []
    run_rows(lambda *_rows: seen.append(threading.get_ident()), 5, rows_per_task=5)
    assert seen == [threading.get_ident()]


def test_run_rows_uses_a_second_thread(monkeypatch):
    monkeypatch.setattr(row_threads, "num_threads", lambda: 2)
    together = threading.Barrier(2, timeout=30)
    run_rows(lambda *_rows: together.wait(), 2, rows_per_task=1)


def test_run_rows_raises_what_a_task_raised():
    def fail(first, _last):
        if first == 3:
            message = "row 3"
            raise ValueError(message)

    with pytest.raises(ValueError, match="row 3"):
        run_rows(fail, 50, rows_per_task=1)


def test_run_rows_raises_what_a_task_on_another_thread_raised(monkeypatch):
    monkeypatch.setattr(row_threads, "num_threads", lambda: 2)
    caller = threading.get_ident()
    together = threading.Barrier(2, timeout=30)

    def fail(_first, _last):
        together.wait()
        if threading.get_ident() != caller:
            message = "not the caller"
            raise KeyError(message)

    with pytest.raises(KeyError, match="not the caller"):
        run_rows(fail, 2, rows_per_task=1)


def test_run_rows_within_a_task_stays_on_its_thread():
    strangers = []

    def outer(_first, _last):
        own = threading.get_ident()
        run_rows(lambda *_rows: strangers.append(threading.get_ident() != own), 8, rows_per_task=1)

    run_rows(outer, 6, rows_per_task=1)
    assert len(strangers) == 48
    assert not any(strangers)


def test_drain_runs_each_task_once_in_the_order_it_takes_them(monkeypatch):
    monkeypatch.setattr(row_threads, "num_threads", lambda: 2)
    taken, run = [], []

    def tasks():
        for task in range(300):
            taken.append(task)
            yield task

    drain(tasks(), run.append)
    assert taken == list(range(300))
    assert sorted(run) == taken


def test_drain_raises_what_its_tasks_raised_and_begins_none_after(monkeypatch):
    monkeypatch.setattr(row_threads, "num_threads", lambda: 2)
    run = []

    def tasks():
        yield from range(3)
        message = "no more"
        raise ValueError(message)

    with pytest.raises(ValueError, match="no more"):
        drain(tasks(), run.append)
    assert sorted(run) == [0, 1, 2]


@pytest.mark.parametrize("first", [0, 3])
def test_drain_raises_the_first_failure_in_order_whichever_ends_first(monkeypatch, first):
    monkeypatch.setattr(row_threads, "num_threads", lambda: 2)
    later_failed = threading.Event()

    def fail(task):
        if task == first:
            assert later_failed.wait(30)
        if task > first:
            later_failed.set()
        if task >= first:
            raise ValueError(task)

    with pytest.raises(ValueError, match=str(first)):
        drain(iter(range(40)), fail)


def test_drain_lets_an_interrupt_of_the_caller_win(monkeypatch):
    monkeypatch.setattr(row_threads, "num_threads", lambda: 2)
    caller, together = threading.get_ident(), threading.Barrier(2, timeout=30)

    def fail(_task):
        together.wait()
        if threading.get_ident() == caller:
            raise KeyboardInterrupt
        message = "not the caller"
        raise ValueError(message)

    with pytest.raises(KeyboardInterrupt):
        drain(iter(range(2)), fail)


def test_calls_are_begun_on_other_threads_in_order(monkeypatch):
    monkeypatch.setattr(row_threads, "_helpers", lambda: alone)
    seen = []
    with ThreadPoolExecutor(1) as alone:
        begun = [
            begin(lambda number=number: seen.append((number, threading.get_ident())))
            for number in range(50)
        ]
        for each in begun:
            assert each.result(30) is None
    numbers, threads = zip(*seen, strict=True)
    assert numbers == tuple(range(50))
    assert threading.get_ident() not in threads


def test_a_call_begun_within_a_task_is_made_at_once():
    made = []

    def outer():
        inner = begin(lambda: made.append(threading.get_ident()))
        assert inner.done()
        assert made[-1] == threading.get_ident()

    for each in [begin(outer) for _ in range(40)]:
        each.result(30)
    drain(iter(range(40)), lambda _task: outer())
    assert len(made) == 80


@pytest.mark.parametrize("within_a_task", [False, True])
def test_what_a_call_raises_is_kept_for_who_waits(within_a_task):
    def fail():
        message = "the call"
        raise KeyError(message)

    begun = []
    if within_a_task:
        drain(iter(range(2)), lambda _task: begun.append(begin(fail)))
    else:
        begun.append(begin(fail))
    for each in begun:
        with pytest.raises(KeyError, match="the call"):
            each.result(30)


def test_drain_uses_no_more_threads_than_it_is_told(monkeypatch):
    monkeypatch.setattr(row_threads, "num_threads", lambda: 8)
    seen = set()
    drain(iter(range(50)), lambda _task: seen.add(threading.get_ident()), max_threads=1)
    assert seen == {threading.get_ident()}


def test_run_rows_serves_concurrent_callers():
    with ThreadPoolExecutor(8) as callers:
        results = list(callers.map(lambda size: covered(size, 3), range(200, 240)))
    assert all((counts == 1).all() for counts in results)


def test_run_rows_works_in_a_spawned_process():
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.apply(_sum_in_child, (1000,)) == 1000


def _sum_in_child(num_rows):
    return int(covered(num_rows, 10).sum())


def test_num_threads_is_the_cores_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {3, 5, 6}, raising=False)
    assert num_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert num_threads() == 1
