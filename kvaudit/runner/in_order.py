"""Several calls at once, with their results in the order in which the calls were given."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


def in_order(calls: Iterable[Callable[[], _Result]], *, max_at_once: int) -> Generator[_Result]:
    """The result of every call, in the order of the calls.

    What the consumer does with results, and what makes the calls, run on the consumer's thread
    alone. At most max_at_once + 1 results exist that it has not asked for.

    Args:
        calls: what to do; taken a few ahead of the results.
        max_at_once: calls that may run at the same time; 1 = each when its result is asked for.

    Raises:
        Exception: what the first failing call raised, in the order of the calls; those that have
            not begun by then never do.
    """
    if max_at_once <= 1:
        for call in calls:
            yield call()
        return
    pending: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(max_at_once, thread_name_prefix="kvaudit-calls") as threads:
        try:
            for call in calls:
                pending.append(threads.submit(call))
                if len(pending) > max_at_once:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
