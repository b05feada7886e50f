"""What asks a flight recorder for a dump from outside the process: a touched file, a signal."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self


class TouchedFile:
    """Whether a file was made or touched since it was last asked.

    Args:
        path: the file; what it is when the watch begins does not count.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._seen = self._modified()

    def __call__(self) -> bool:
        """Ask."""
        modified = self._modified()
        is_touched = modified not in (None, self._seen)
        self._seen = modified
        return is_touched

    def _modified(self) -> int | None:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return None


class RaisedSignal:
    """Whether a signal came since it was last asked; within a `with` block in the main thread.

    Args:
        number: the signal, such as signal.SIGUSR1. Its handler of before comes back after the
            block.
    """

    def __init__(self, number: signal.Signals) -> None:
        self._number = number
        self._is_raised = False
        self._before: Any = None

    def __call__(self) -> bool:
        """Ask."""
        is_raised, self._is_raised = self._is_raised, False
        return is_raised

    def __enter__(self) -> Self:
        self._before = signal.signal(self._number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.signal(self._number, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_raised = True
