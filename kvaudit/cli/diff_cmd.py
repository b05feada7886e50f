"""`kvaudit diff`: two or three dumps of one pool, compared by what they hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    Layer,
    MaxViolations,
    MinCoverage,
    Output,
    OutputFormat,
    Quiet,
    Request,
    Require,
    Select,
    SkipBytes,
    families,
    layers,
    rules,
)
from kvaudit.core.comparison_choices import LETTERS, ComparedContent, MatchBy
from kvaudit.core.severity import Severity
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    from kvaudit.core.dataset import Dataset

EXACT = "exact"

# \b keeps the lines of the paragraph below it.
HELP = """Compare two or three dumps of one pool: what is the same content must be the same KV.

A is taken for right, and each dump is compared with the one before it: sender and receiver, or
device, host and device again. A finding names the leg that did the damage, with slot, request,
column and byte (KV402). Slots may have moved: they are matched by content, the same token after the
same ones under the same extra key, told by records or by the tokens of sequences. What that leaves
of requests that both dumps name is matched by request and position.

Ranks of one engine must hold the same records, of the same requests, in the same slots (KV401); their
KV is compared only where both say kv_sharding replicated. Two steps of one pool are audited as well,
and more failed rows at the later one are a finding (KV403). Folders are compared pool by pool, by
group, pool and rank.

\b
A verdict says nothing about:
  - content of B that A has none of, and slots that hold nothing;
  - columns that one dump alone has: those of the KV lower the coverage;
  - stamps, real_kv_hash among them: kvaudit verify holds the KV against them;
  - what was wrong in A already: kvaudit verify A says that;
  - with --tolerance, what differs less.

Exit codes: as verify; 5 also where less was matched than A holds.
"""

Left = Annotated[
    str, typer.Argument(metavar="A", help="A snapshot, or a folder of a dump: taken for right.")
]
Right = Annotated[str, typer.Argument(metavar="B", help="The dump to compare with A.")]
Third = Annotated[str | None, typer.Argument(metavar="C", help="A dump to compare with B.")]
Match = Annotated[
    MatchBy,
    typer.Option(
        envvar="KVAUDIT_MATCH",
        help="What makes slots the same: content; request and position; their number. auto: content, "
        "then request, and in one place and step number; of ranks request, then number.",
    ),
]
Content = Annotated[
    ComparedContent,
    typer.Option(
        envvar="KVAUDIT_CONTENT",
        help="What of the KV is compared: bytes where a file has them and digests where not, dumped "
        "digests alone, or bytes alone.",
    ),
]
Tolerance = Annotated[
    str,
    typer.Option(
        metavar="exact|REL",
        envvar="KVAUDIT_TOLERANCE",
        help="For KV that was computed anew: how far an element may lie off, as a fraction of the "
        "largest of its slot and column, as 0.05. Needs bytes of a float type.",
    ),
]


def diff(
    left: Left,
    right: Right,
    third: Third = None,
    *,
    match: Match = MatchBy.AUTO,
    content: Content = ComparedContent.BOTH,
    tolerance: Tolerance = EXACT,
    require: Require = None,
    min_coverage: MinCoverage = 100,
    skip_bytes: SkipBytes = False,
    request: Request = None,
    layer: Layer = None,
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
    """Compare the dumps, write the report, and leave with its exit code; HELP is its help."""
    from kvaudit import api
    from kvaudit.cli.output import end_with, output_files
    from kvaudit.cli.screen import progress
    from kvaudit.core.audit_options import AuditOptions
    from kvaudit.core.comparison import CompareOptions

    options = CompareOptions(
        match=match,
        content=content,
        tolerance=_fraction(tolerance),
        audit=AuditOptions(
            require=families(require),
            min_coverage=min_coverage,
            skip_bytes=skip_bytes,
            request_ids=tuple(request or ()),
            layers=layers(layer),
            select=rules(select),
            ignore=rules(ignore),
            fail_on=fail_on,
            max_violations=max_violations,
        ),
    )
    with progress(quiet=quiet) as observer:
        datasets = [api.open([path]) for path in (left, right, third) if path is not None]
        _refuse_one_file(datasets)
        read = [file.path for dataset in datasets for file in dataset.files]
        copies = output_files(output, inputs=read)
        report = api.compare(datasets, backend=backend, options=options, observer=observer)
    return end_with(
        report, exit_zero=exit_zero, form=format, files=copies, color=color, quiet=quiet
    )


def _refuse_one_file(datasets: Sequence[Dataset]) -> None:
    """Refuse dumps that share a snapshot: compared with itself, whatever it holds is right."""
    seen: dict[Path, str] = {}
    for letter, dataset in zip(LETTERS, datasets, strict=False):
        snapshots = {
            Path(file.path).resolve(): file.path
            for file in dataset.files
            if file.kind == "snapshot"
        }
        for target, path in snapshots.items():
            if target in seen:
                raise ConfigError(
                    f"{path} is in {seen[target]} and in {letter}: a file compared with itself is "
                    "always right",
                    hint="give the dumps of two moments or places",
                )
        seen |= dict.fromkeys(snapshots, letter)


def _fraction(text: str) -> float | None:
    """Read `--tolerance`; None for exact."""
    if text == EXACT:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise ConfigError(
            f"--tolerance {text!r} is neither exact nor a fraction",
            hint="write exact, or a number between 0 and 1, as 0.05",
        )
    return value
