"""Pools over the devices that there are: each device takes the next pool as soon as it is free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from queue import SimpleQueue

from kvaudit.core.backend import Backend
from kvaudit.core.observer import RunObserver
from kvaudit.errors import InputError
from kvaudit.runner.in_order import in_order
from kvaudit.runner.pool_audit import PoolAudit, PoolResult
from kvaudit.runner.pool_progress import ProgressInTurn
from kvaudit.runner.self_check import prepare, self_check


def prepare_all(backends: Sequence[Backend], observer: RunObserver) -> str:
    """Compile once what is not compiled yet, then let every backend check itself.

    Returns:
        `passed`.

    Raises:
        SelfCheckFailed: a backend missed a planted bad entry.
    """
    passed = prepare(backends[0], observer)
    checks = [partial(self_check, backend) for backend in backends[1:]]
    return [passed, *in_order(checks, max_at_once=len(checks))][-1]


def judge_pools(
    audits: Sequence[PoolAudit], *, backends: Sequence[Backend], observer: RunObserver
) -> Iterator[PoolResult | InputError]:
    """The result of each pool's audit in their order, or why its files cannot be used.

    Args:
        audits: what to judge; the backend and the observer of each are set here.
        backends: what computes, one pool at a time each.
        observer: told of progress as if the pools followed one another.
    """
    free = SimpleQueue[Backend]()
    for backend in backends:
        free.put(backend)
    progress = ProgressInTurn(observer)

    def judge(pool_idx: int) -> PoolResult | InputError:
        backend = free.get()
        try:
            audit = replace(audits[pool_idx], backend=backend, observer=progress.of(pool_idx))
            return audit.run()
        except InputError as error:
            return error
        finally:
            progress.finish(pool_idx)
            free.put(backend)

    calls = [partial(judge, pool_idx) for pool_idx in range(len(audits))]
    with closing(in_order(calls, max_at_once=len(backends))) as results:
        yield from results


def device_label(backends: Sequence[Backend]) -> str:
    """What they run on, for people, such as `2 x NVIDIA H200 (9.0)`."""
    counts = Counter(backend.device for backend in backends)
    return " + ".join(name if n == 1 else f"{n} x {name}" for name, n in counts.items())
