"""`kvaudit replay`: a recorded run, run again."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import (
    Backend,
    BackendName,
    Color,
    ColorMode,
    ExitZero,
    FailOn,
    Format,
    Ignore,
    MaxViolations,
    MinCoverage,
    Output,
    OutputFormat,
    Quiet,
    Require,
    Select,
    SkipBytes,
    families,
    rules,
)
from kvaudit.core.severity import Severity

Trace = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace, or the folder that a recorder wrote it to with its snapshots.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="SNAPSHOT",
        envvar="KVAUDIT_FROM",
        help="Begin with this snapshot, at its step; default: the earliest beside the trace.",
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="SNAPSHOT",
        envvar="KVAUDIT_AGAINST",
        help="End with this snapshot, at its step, and compare with it; default: the last beside the "
        "trace. Those between are compared in any case.",
    ),
]
Until = Annotated[
    int | None,
    typer.Option(metavar="STEP", envvar="KVAUDIT_UNTIL", help="Replay no step after this one."),
]


def replay(
    trace: Trace,
    *,
    start: From = None,
    against: Against = None,
    until: Until = None,
    require: Require = None,
    min_coverage: MinCoverage = 100,
    skip_bytes: SkipBytes = False,
    select: Select = None,
    ignore: Ignore = None,
    fail_on: FailOn = Severity.ERROR,
    exit_zero: ExitZero = False,
    max_violations: MaxViolations = 100,
    backend: Backend = BackendName.AUTO,
    format: Format = OutputFormat.TEXT,  # noqa: A002 - the option's name
    output: Output = None,
    quiet: Quiet = False,
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Run a recorded run again, step by step, and name the first step at which anything differs.

    Each step is written, planned and verified by the canary's launches on tables of its own, as
    beside the engine, and held against the recorded plans, every snapshot on the way and the last
    one. A trace has no KV: of bytes it says between which two snapshots they changed without a
    write. The canary's watchdog, statistics and sweeps run as KVAUDIT_CANARY_* says (docs/live.md);
    the lines of statistics go to stderr.
    """
    import os

    from kvaudit import api
    from kvaudit.cli.canary_log import canary_log
    from kvaudit.cli.output import end_with, output_files
    from kvaudit.cli.screen import progress
    from kvaudit.core.audit_options import AuditOptions

    options = AuditOptions(
        require=families(require),
        min_coverage=min_coverage,
        skip_bytes=skip_bytes,
        select=rules(select),
        ignore=rules(ignore),
        fail_on=fail_on,
        max_violations=max_violations,
    )
    with ExitStack() as stack:
        observer = stack.enter_context(progress(quiet=quiet))
        if not quiet:
            stack.enter_context(canary_log())
        run = api.open_run(trace, start=start, against=against, until=until)
        copies = output_files(output, inputs=[file.path for file in run.files])
        report = api.replay(
            run, backend=backend, options=options, environ=os.environ, observer=observer
        )
    return end_with(
        report, exit_zero=exit_zero, form=format, files=copies, color=color, quiet=quiet
    )
