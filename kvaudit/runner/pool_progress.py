"""The progress of pools that are judged at the same time, told as if they followed one another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from kvaudit.core.observer import RunObserver

_Call = Callable[[RunObserver], None]


class ProgressInTurn:
    """Passes on what the first unfinished pool reports; what later ones report waits for their turn.

    So an observer hears the same, one call at a time, however many pools are judged at once.

    Args:
        observer: who is told.
    """

    def __init__(self, observer: RunObserver) -> None:
        self._observer = observer
        self._telling = threading.Lock()
        self._waiting: dict[int, list[_Call]] = {}
        self._finished: set[int] = set()
        self._turn = 0

    def of(self, pool_idx: int) -> RunObserver:
        """What one pool reports to, in any thread."""
        return _PoolObserver(partial(self._tell, pool_idx))

    def finish(self, pool_idx: int) -> None:
        """A pool reports no more: it is the next one's turn."""
        with self._telling:
            self._finished.add(pool_idx)
            while self._turn in self._finished:
                self._turn += 1
                for call in self._waiting.pop(self._turn, ()):
                    call(self._observer)

    def _tell(self, pool_idx: int, call: _Call) -> None:
        with self._telling:
            if pool_idx == self._turn:
                call(self._observer)
            else:
                self._waiting.setdefault(pool_idx, []).append(call)


class _PoolObserver:
    """A RunObserver whose calls are handed on as what is to be called."""

    def __init__(self, tell: Callable[[_Call], None]) -> None:
        self._tell = tell

    def stage(self, name: str, total: int) -> None:
        """A stage of this pool begins."""
        self._tell(lambda observer: observer.stage(name, total))

    def advance(self, amount: int) -> None:
        """So much of it is done."""
        self._tell(lambda observer: observer.advance(amount))

    def compiling(self, *, is_kept: bool) -> None:
        """Kernels are compiled."""
        self._tell(lambda observer: observer.compiling(is_kept=is_kept))
