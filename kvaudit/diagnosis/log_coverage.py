"""What a canary did not check, by its log: overflow, stall, a full ring, a start that was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvaudit.core.engine_log import LoggedViolation, LogLine, LogLineKind
from kvaudit.core.log_report import LogNote
from kvaudit.diagnosis.rule import counted

DEFAULT_RING_CAPACITY: Final = 1024
# Names kept of each kind, and ranks told apart, whatever a damaged log holds.
_MAX_NAMES: Final = 16
_MAX_PROCESSES: Final = 4096


@dataclass(slots=True, kw_only=True, eq=False)
class _Process:
    """What the lines of one rank count.

    Fields:
        printed: violations printed.
        total: the most that a line counts.
        overflowed: whether a line says that the ring had no room.
    """

    printed: int = 0
    total: int = 0
    overflowed: bool = False


class LogCoverage:
    """Takes the events of a log, and says what they leave unchecked."""

    def __init__(self) -> None:
        self.lines: Counter[LogLineKind] = Counter()
        self._processes: dict[str, _Process] = {}
        self._most_entries = 0
        self._least_capacity: int | None = None
        self._stalled: dict[str, None] = {}
        self._first_stall: int | None = None
        self._refused: dict[str, None] = {}
        self._modes: dict[str, None] = {}
        self._ring_capacity = DEFAULT_RING_CAPACITY
        self._last_statistics: LogLine | None = None
        self._diverged = 0

    def add(self, event: LoggedViolation | LogLine) -> None:
        """Take one event."""
        if isinstance(event, LoggedViolation):
            self._add_violation(event)
        else:
            self.lines[event.kind] += 1
            self._add_line(event)

    def not_checked(self) -> list[LogNote]:
        """What was not checked, or was checked and is not in the log."""
        return [*self._skipped_steps(), *self._stalls(), *self._refusals(), *self._lost_rows()]

    def notes(self) -> list[LogNote]:
        """What else the log says of its canary."""
        return list(self._notes())

    def _add_violation(self, row: LoggedViolation) -> None:
        process = self._process(row.rank)
        process.printed += 1
        process.total = max(process.total, row.total or 0)
        process.overflowed |= bool(row.ring_overflow)

    def _add_line(self, line: LogLine) -> None:
        facts = line.facts
        if line.kind is LogLineKind.NOT_VERIFIED:
            capacity = int(facts["capacity"])
            self._most_entries = max(self._most_entries, int(facts["total"]))
            known = capacity if self._least_capacity is None else self._least_capacity
            self._least_capacity = min(known, capacity)
        elif line.kind is LogLineKind.STALLED:
            step = int(facts["step"])
            self._first_stall = step if self._first_stall is None else min(self._first_stall, step)
            _keep(self._stalled, str(facts["tags"]).replace(",", ", "))
        elif line.kind is LogLineKind.REFUSED:
            _keep(self._refused, str(facts["pool_class"]))
        elif line.kind is LogLineKind.INSTALLED:
            _keep(self._modes, str(facts["disaggregation_mode"]))
            self._ring_capacity = int(facts.get("ring_capacity", self._ring_capacity))
        elif line.kind is LogLineKind.STATISTICS:
            self._last_statistics = line
            process = self._process(line.rank)
            process.total = max(process.total, int(facts["violations"]))
        elif line.kind is LogLineKind.SWA_DIVERGENCE:
            self._diverged = max(self._diverged, int(facts.get("swa_full_idx_divergence", 0)))

    def _process(self, rank: str) -> _Process:
        if rank not in self._processes and len(self._processes) >= _MAX_PROCESSES:
            rank = ""
        return self._processes.setdefault(rank, _Process())

    def _skipped_steps(self) -> Iterator[LogNote]:
        if count := self.lines[LogLineKind.NOT_VERIFIED]:
            yield LogNote(
                rule="KV002",
                text=f"{counted(count, 'step')} not verified at all: up to {self._most_entries:,} "
                f"entries where {self._least_capacity:,} fit. Run counters still moved",
            )

    def _stalls(self) -> Iterator[LogNote]:
        if self._first_stall is not None:
            yield LogNote(
                rule="KV003",
                text=f"launches of {', '.join(self._stalled)} stood still at the check of step "
                f"{self._first_stall}: nothing of theirs was checked since the one before",
            )

    def _refusals(self) -> Iterator[LogNote]:
        if self._refused:
            yield LogNote(
                rule="KV001",
                text=f"the canary did not start: it knows no pool of class "
                f"{', '.join(self._refused)}. Nothing was checked",
            )

    def _lost_rows(self) -> Iterator[LogNote]:
        for rank, process in self._processes.items():
            of = f" of {rank}" if rank else ""
            if process.overflowed or process.total >= self._ring_capacity:
                yield LogNote(
                    rule="KV005",
                    text=f"the ring{of} is full: {process.total:,} violations, of which the first "
                    f"{self._ring_capacity:,} can be printed. A quiet log after that means nothing",
                )
            elif process.total > process.printed:
                yield LogNote(
                    rule="",
                    text=f"{process.total:,} violations{of} are counted and {process.printed:,} "
                    "printed here: the log is a part, or rows of all-zero records were dropped "
                    "by the host",
                )

    def _notes(self) -> Iterator[LogNote]:
        if self._last_statistics is not None:
            facts = self._last_statistics.facts
            yield LogNote(
                rule="",
                text=f"last statistics, at step {facts['step']}: {facts['violations']} violations, "
                f"{facts['active_tags']} of {facts['tags']} launch tags active, "
                f"{facts['sweep_passes']} sweeps",
            )
        if len(self._modes) > 1:
            yield LogNote(
                rule="",
                text=f"servers of modes {', '.join(self._modes)} are in this log: slots of different "
                "servers have nothing to do with each other",
            )
        if self._diverged:
            yield LogNote(
                rule="KV105",
                text=f"full and window pools disagree on up to {self._diverged:,} indices: the "
                "full-to-window map may be stale",
            )


def _keep(names: dict[str, None], name: str) -> None:
    if len(names) < _MAX_NAMES:
        names[name] = None
