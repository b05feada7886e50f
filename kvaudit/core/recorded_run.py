"""A recorded run of one pool: its trace, and the snapshots that it is held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvaudit.core.canary_state import CanaryState
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.recorded_step import Trace
from kvaudit.core.report import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMoment:
    """A snapshot of the run, read when the replay comes to it.

    Fields:
        file: its file.
        step: the step at whose end it was taken.
        read: reads it, with the sequences beside it; may raise InputError.
    """

    file: InputFile
    step: int
    read: Callable[[], AuditedPool]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedRun:
    """What a replay is given.

    Fields:
        trace: the steps.
        start: what the pool held where the replay begins.
        start_step: the step at whose end that was; rows up to it only fill tables.
        later: the snapshots that follow, by step; no two of one step.
        last_step: rows past it are not replayed; None = all are.
        state: what the engine's canary had counted at the end; None where there is none, or where
            the replay ends before.
        files: the files of the run.
    """

    trace: Trace
    start: AuditedPool
    start_step: int
    later: Sequence[RecordedMoment] = ()
    last_step: int | None = None
    state: CanaryState | None = None
    files: Sequence[InputFile] = ()
