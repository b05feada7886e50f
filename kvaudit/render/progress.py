"""Progress of a run, on stderr: a bar on a terminal, single lines anywhere else."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

COMPILING = "compiling kernels for this machine: once, then they are cached"
COMPILING_EACH_TIME = (
    "compiling kernels for this run alone: no folder to cache them in can be written to, "
    "set NUMBA_CACHE_DIR to one that can"
)


class ProgressDisplay:
    """A RunObserver that draws; a context manager, so that the bar is gone before the report."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(
            file=stream, force_terminal=stream.isatty(), highlight=False, markup=False
        )
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._announced = False

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

    def advance(self, amount: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def compiling(self, *, is_kept: bool) -> None:
        """Say once that the kernels are compiled."""
        if not self._announced:
            self._announced = True
            message = COMPILING if is_kept else COMPILING_EACH_TIME
            self._console.print(f"kvaudit: {message}", soft_wrap=True)
