"""An observer that remembers."""

from __future__ import annotations


class Watcher:
    """Total and progress of each stage, by its name."""

    def __init__(self) -> None:
        self.stages: dict[str, tuple[int, int]] = {}
        self.compiled = 0
        self.kept: bool | None = None
        self._current = ""

    def stage(self, name: str, total: int) -> None:
        self._current = name
        self.stages[name] = (total, 0)

    def advance(self, amount: int) -> None:
        total, done = self.stages[self._current]
        self.stages[self._current] = (total, done + amount)

    def compiling(self, *, is_kept: bool) -> None:
        self.compiled += 1
        self.kept = is_kept
