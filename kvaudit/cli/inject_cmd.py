"""`kvaudit inject`: put a fault into a copy of a dump."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import Color, ColorMode, Expect, Format, OutputFormat
from kvaudit.cli.screen import write_facts

LIST: Final = "list"

Dump = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE|DIR",
        help="A snapshot; its sequences and plans are found beside it. Or a folder with one.",
    ),
]
Fault = Annotated[
    str,
    typer.Option(
        metavar="CLASS[:ARGS]",
        envvar="KVAUDIT_FAULT",
        help="A fault class, as late-writer or late-writer:request=A,position=7; `list` names all.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        envvar="KVAUDIT_SEED",
        help="Chooses what ARGS leaves open; the same seed gives the same damage.",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        envvar="KVAUDIT_OUT",
        help="Folder for the damaged copies and injection.json; made if missing.",
    ),
]


def inject(
    dump: Dump = None,
    *,
    fault: Fault,
    seed: Seed = 0,
    out: To = None,
    expect: Expect = None,
    format: Format = OutputFormat.TEXT,  # noqa: A002 - the option's name
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Put a fault into a copy of a dump, as an engine would: to see what an audit makes of it.

    The copies are sound files: their own digests are right, and what is wrong in them is the damage.
    injection.json beside them says what was done: fault, seed, slots, requests, columns, and the
    rule that should name it. A class that the dump cannot show is refused with what it needs. No
    input is written to.
    """
    if fault == LIST:
        write_facts(_classes(), form=format, color=color)
        return ExitCode.CLEAN
    from kvaudit import api
    from kvaudit.errors import ConfigError

    if dump is None or out is None:
        raise ConfigError(
            "a fault needs a dump and a folder for its copy",
            hint="kvaudit inject FILE --fault CLASS -o DIR",
        )
    dataset = api.open([dump], expect=tuple(expect or ()))
    injection = api.inject(dataset, fault, folder=out, seed=seed)
    write_facts(injection.to_dict(), form=format, color=color)
    return ExitCode.CLEAN


def _classes() -> dict[str, Any]:
    from kvaudit.runner.inject import FAULT_CLASSES

    return {
        "classes": [
            {"fault": each.name, "rule": each.rule, "what": each.what, "needs": each.needs}
            for each in FAULT_CLASSES
        ]
    }
