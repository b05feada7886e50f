"""Recorded runs, run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.observer import RunObserver, SilentObserver

if TYPE_CHECKING:
    from kvaudit.core.recorded_run import RecordedRun
    from kvaudit.core.report import Report
    from kvaudit.formats.dataset import StrPath


def open_run(
    trace: StrPath,
    *,
    start: StrPath | None = None,
    against: StrPath | None = None,
    until: int | None = None,
) -> RecordedRun:
    """Open a recorded run: a trace with the snapshots and the state of its pool.

    Args:
        trace: the trace, or the folder of a run that has one.
        start: the snapshot to begin with; None = the run's first.
        against: the snapshot to end with; None = the run's own end.
        until: the last step to replay; None = the trace's.

    Raises:
        InputError: a file cannot be used, or there is no snapshot to begin with.
    """
    from kvaudit.formats.run_files import open_run as open_files

    return open_files(trace, start=start, against=against, until=until)


def replay(
    run: RecordedRun,
    *,
    backend: str = "auto",
    options: AuditOptions | None = None,
    environ: Mapping[str, str] | None = None,
    observer: RunObserver | None = None,
) -> Report:
    """Run a recorded run again from its trace, and hold it against its snapshots.

    The lines of statistics go to the logger `kvaudit.runner.live`, as beside an engine.

    Args:
        run: what `open_run` returned.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        options: demands and limits; its scope is not used. None = the defaults.
        environ: the canary's configuration, as `CanaryConfig.from_env` reads it; None = its defaults.
        observer: told of progress; None = nobody.

    Raises:
        InputError: a row of the trace or a snapshot cannot be used.
        BackendError: a demanded backend cannot run, torch is missing, or the device failed.
        ConfigError: the options name a rule that does not exist, or a variable cannot be understood.
        SelfCheckFailed: the backend missed a planted bad entry: nothing of the run can be trusted.
    """
    from kvaudit.runner.live.config import CanaryConfig
    from kvaudit.runner.replay import ReplayOptions, choose_place, replay_run

    config = CanaryConfig.from_env({} if environ is None else environ)
    chosen, choice, place = choose_place(backend)
    return replay_run(
        run,
        backend=chosen,
        choice=choice,
        place=place,
        options=ReplayOptions(audit=AuditOptions() if options is None else options, config=config),
        observer=SilentObserver() if observer is None else observer,
    )
