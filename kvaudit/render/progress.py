"""Progress of a run, on stderr: a bar on a terminal, single lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from kvaudit.core.size_label import KILO

COMPILING = "compiling kernels for this machine: once, then they are cached"
COMPILING_EACH_TIME = (
    "compiling kernels for this run alone: no folder to cache them in can be written to, "
    "set NUMBA_CACHE_DIR to one that can"
)
# A job that is watched through a pipe says so often that it is alive.
SECONDS_BETWEEN_LINES: Final = 10.0


class ProgressDisplay:
    """A RunObserver that draws; a context manager, so that the bar is gone before the report.

    Args:
        stream: where.
        now: seconds of a clock that never goes back.
    """

    def __init__(self, stream: TextIO, *, now: Callable[[], float] = time.monotonic) -> None:
        self._console = Console(
            file=stream, force_terminal=stream.isatty(), highlight=False, markup=False
        )
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            _RateColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._announced = False
        self._lines = None if self._console.is_terminal else _StageLines(self._console, now)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def stage(self, name: str, total: int) -> None:
        """Begin a stage with a bar of its own; a total of 0 pulses."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total or None)
        if self._lines is not None:
            self._lines.stage(name, total)

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.advance(self._task, amount)
            if self._lines is not None:
                self._lines.advance(amount)

    def compiling(self, *, is_kept: bool) -> None:
        """Say once that the kernels are compiled."""
        if not self._announced:
            self._announced = True
            message = COMPILING if is_kept else COMPILING_EACH_TIME
            self._console.print(f"kvaudit: {message}", soft_wrap=True)


class _RateColumn(ProgressColumn):
    """How fast the stage runs, in its own unit."""

    def render(self, task: Task) -> Text:
        """`1,234/s`; nothing before the first advance."""
        return Text(rate_label(task.speed) if task.speed else "")


class _StageLines:
    """Lines on a stage that takes long: how far it is, how fast, and how long it will take.

    Args:
        console: where.
        now: seconds.
    """

    def __init__(self, console: Console, now: Callable[[], float]) -> None:
        self._console = console
        self._now = now
        self.stage("", 0)

    def stage(self, name: str, total: int) -> None:
        """Begin a stage."""
        self._name, self._total, self._done = name, total, 0
        self._began = self._printed = self._now()

    def advance(self, amount: int) -> None:
        """Go on, and print a line if one is due."""
        self._done += amount
        now = self._now()
        if now - self._printed < SECONDS_BETWEEN_LINES:
            return
        self._printed = now
        rate = self._done / (now - self._began)
        of = f" of {self._total:,}" if self._total else ""
        left = f", {(self._total - self._done) / rate:.0f} s left" if self._total and rate else ""
        self._console.print(
            f"kvaudit: {self._name}: {self._done:,}{of}, {rate_label(rate)}{left}", soft_wrap=True
        )


def rate_label(rate: float) -> str:
    """`950/s`, `1.2 k/s`, `3.4 G/s`: powers of 1000."""
    unit = ""
    for larger in ("k", "M", "G"):
        if rate < KILO:
            break
        rate, unit = rate / KILO, larger
    return f"{rate:.1f} {unit}/s" if unit else f"{rate:.0f}/s"
