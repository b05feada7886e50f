"""The options that commands share, and the parsers of those that are more than a word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kvaudit.core.coverage import Family
from kvaudit.core.severity import Severity
from kvaudit.errors import ConfigError

if TYPE_CHECKING:
    from kvaudit.core.audit_options import Layer0
    from kvaudit.core.layer0_table import Layer0Table


class BackendName(StrEnum):
    """What computes; all but auto are demands."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"
    REFERENCE = "reference"


class OutputFormat(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"


class ColorMode(StrEnum):
    """When text carries colours."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES|DIR",
        help="Snapshots, with or without their sequences and plans; a folder stands for its files.",
    ),
]
Expect = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        envvar="KVAUDIT_EXPECT",
        help="A plan or sequences file that says what the pool should hold, instead of the "
        "companions; repeatable.",
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FAMILY",
        envvar="KVAUDIT_REQUIRE",
        help="A family that must be fully covered: index, records, bytes or identity; repeatable. "
        "Default: the first three, each where something of it is planned.",
    ),
]
MinCoverage = Annotated[
    float,
    typer.Option(
        metavar="PERCENT",
        min=0,
        max=100,
        envvar="KVAUDIT_MIN_COVERAGE",
        help="How much of each required family must be checked.",
    ),
]
SkipBytes = Annotated[
    bool,
    typer.Option(
        "--skip-bytes",
        envvar="KVAUDIT_SKIP_BYTES",
        help="Leave the bytes family out; the coverage says so.",
    ),
]
Layer0Rows = Annotated[
    str,
    typer.Option(
        "--layer0",
        metavar="auto|off|TABLE",
        envvar="KVAUDIT_LAYER0",
        help="What layer-0 rows are judged by: auto is the dump itself, where tokens repeat; a table of "
        "kvaudit learn knows more of them; off leaves the identity family out.",
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        envvar="KVAUDIT_TOKENIZER",
        help="The model's tokenizer.json: text output then shows the words of tokens, and no other "
        "format does.",
    ),
]
Request = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID", envvar="KVAUDIT_REQUEST", help="Judge this request alone; repeatable."
    ),
]
Slot = Annotated[
    str | None,
    typer.Option(
        metavar="A-B", envvar="KVAUDIT_SLOT", help="Judge these slots alone: 7, 0-15 or 0,4-7."
    ),
]
Layer = Annotated[
    list[str] | None,
    typer.Option(
        metavar="N",
        envvar="KVAUDIT_LAYER",
        help="Judge the KV columns of this layer alone: 17 or 0-3; repeatable.",
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE",
        envvar="KVAUDIT_SELECT",
        help="Run these rules alone: KV101, slot-alias, or KV1 for all KV1xx; repeatable.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE", envvar="KVAUDIT_IGNORE", help="Leave these rules out; repeatable."
    ),
]
FailOn = Annotated[
    Severity,
    typer.Option(
        envvar="KVAUDIT_FAIL_ON",
        help="Findings at or above this severity fail the run; failed rows always do.",
    ),
]
ExitZero = Annotated[
    bool,
    typer.Option("--exit-zero", envvar="KVAUDIT_EXIT_ZERO", help="Leave with 0 after any report."),
]
MaxViolations = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar="KVAUDIT_MAX_VIOLATIONS",
        help="Rows shown; the count is exact whatever it says.",
    ),
]
Backend = Annotated[
    BackendName,
    typer.Option(
        envvar="KVAUDIT_BACKEND", help="What computes; a named backend is a demand: it runs, or 4."
    ),
]
Format = Annotated[
    OutputFormat, typer.Option(envvar="KVAUDIT_FORMAT", help="How stdout is written.")
]
Output = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT=FILE",
        envvar="KVAUDIT_OUTPUT",
        help="Also write the report to a file, as json=report.json; repeatable.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        envvar="KVAUDIT_QUIET",
        help="No progress, and of the text only the verdict.",
    ),
]
Color = Annotated[
    ColorMode,
    typer.Option(
        envvar="KVAUDIT_COLOR",
        help="Colours; auto asks whether stdout is a terminal, and NO_COLOR.",
    ),
]


def families(values: Iterable[str] | None) -> frozenset[Family] | None:
    """Read `--require`, which also takes `index,records`; None when it was not given."""
    names = _separated(values)
    unknown = [name for name in names if name not in list(Family)]
    if unknown:
        raise ConfigError(
            f"--require {unknown[0]!r} is no family of checks",
            hint=f"the families are {', '.join(Family)}",
        )
    return frozenset(Family(name) for name in names) or None


def layers(values: Iterable[str] | None) -> tuple[int, ...] | None:
    """Read `--layer`: whole numbers and ranges of them; None when it was not given."""
    numbers: set[int] = set()
    for text in _separated(values):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise ConfigError(f"--layer {text!r} is no layer", hint="write 17, 0-3 or 0,17")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers)) or None


def layer0_source(text: str) -> Layer0 | Layer0Table:
    """Read `--layer0`: a word, or the path of a table.

    Raises:
        InputError: the table cannot be used.
    """
    from kvaudit import api
    from kvaudit.core.audit_options import Layer0

    return Layer0(text) if text in list(Layer0) else api.open_table(text)


def rules(values: Iterable[str] | None) -> tuple[str, ...]:
    """Read `--select` or `--ignore`; which names there are is the audit's to say."""
    return tuple(_separated(values))


def _separated(values: Iterable[str] | None) -> list[str]:
    """Repeated values, each of which may hold several between commas."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]
