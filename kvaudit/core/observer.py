"""How a run tells whoever watches it where it is. Nobody below `cli` draws."""

from __future__ import annotations

from typing import Protocol


class RunObserver(Protocol):
    """Receives the progress of a run; calls come one at a time, from any of the run's threads."""

    def stage(self, name: str, total: int) -> None:
        """A stage begins: `bytes`, `records`; total in its own unit, 0 when unknown."""
        ...

    def advance(self, amount: int) -> None:
        """So much of the current stage is done."""
        ...

    def compiling(self, *, is_kept: bool) -> None:
        """Kernels are compiled, which takes seconds: once for this machine if the code is kept."""
        ...


class SilentObserver:
    """A RunObserver that does nothing."""

    def stage(self, name: str, total: int) -> None:
        """Ignore it."""

    def advance(self, amount: int) -> None:
        """Ignore it."""

    def compiling(self, *, is_kept: bool) -> None:
        """Ignore it."""
