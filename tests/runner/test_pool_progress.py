"""Pools at once sound like pools in turn."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from kvaudit.runner.pool_progress import ProgressInTurn

NUM_POOLS = 6
NUM_STEPS = 200


class Listener:
    """Remembers every call, and that no two came at the same time."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self._alone = threading.Lock()

    def _hear(self, *call: object) -> None:
        assert self._alone.acquire(blocking=False)
        self.calls.append(call)
        self._alone.release()

    def stage(self, name: str, total: int) -> None:
        self._hear("stage", name, total)

    def advance(self, amount: int) -> None:
        self._hear("advance", amount)

    def compiling(self, *, is_kept: bool) -> None:
        self._hear("compiling", is_kept)


def report(progress: ProgressInTurn, pool_idx: int) -> None:
    observer = progress.of(pool_idx)
    observer.compiling(is_kept=True)
    for name in ("bytes", "records"):
        observer.stage(name, NUM_STEPS * pool_idx)
        for _ in range(NUM_STEPS):
            observer.advance(pool_idx)
    progress.finish(pool_idx)


def told_in_turn() -> list[tuple[object, ...]]:
    listener = Listener()
    progress = ProgressInTurn(listener)
    for pool_idx in range(NUM_POOLS):
        report(progress, pool_idx)
    return listener.calls


def test_what_the_first_pool_reports_is_told_at_once() -> None:
    listener = Listener()
    progress = ProgressInTurn(listener)
    progress.of(0).stage("bytes", 3)
    assert listener.calls == [("stage", "bytes", 3)]


def test_what_a_later_pool_reports_waits_until_those_before_it_have_finished() -> None:
    listener = Listener()
    progress = ProgressInTurn(listener)
    progress.of(2).advance(2)
    progress.finish(2)
    progress.of(1).advance(1)
    progress.of(3).advance(3)
    assert listener.calls == []
    progress.finish(0)
    assert listener.calls == [("advance", 1)]
    progress.finish(1)
    assert listener.calls == [("advance", 1), ("advance", 2), ("advance", 3)]
    progress.of(3).advance(4)
    assert listener.calls[-1] == ("advance", 4)


def test_pools_at_once_are_told_as_pools_in_turn() -> None:
    listener = Listener()
    progress = ProgressInTurn(listener)
    with ThreadPoolExecutor(NUM_POOLS) as threads:
        for reported in [threads.submit(report, progress, n) for n in range(NUM_POOLS)]:
            reported.result()
    assert listener.calls == told_in_turn()
    assert len(listener.calls) == NUM_POOLS * (2 * NUM_STEPS + 3)
