"""`kvaudit stamp`: give an existing dump records and digests."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import Backend, BackendName, Expect, Files

To = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        envvar="KVAUDIT_TO",
        help="Folder for the stamped copies; made if missing. No input is written to.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        envvar="KVAUDIT_QUIET",
        help="No progress, and no reminder of what a stamp certifies.",
    ),
]
Combined = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        envvar="KVAUDIT_COMBINED",
        help="A column that the records' real_kv_hash covers too, as kv.k.0; repeatable, in order.",
    ),
]


def stamp(
    files: Files,
    *,
    to: To,
    expect: Expect = None,
    combined: Combined = None,
    backend: Backend = BackendName.AUTO,
    quiet: Quiet = False,
) -> ExitCode:
    """Stamp an existing dump: records from its sequences, digests from its bytes.

    This certifies what is there NOW. Whatever was damaged before is stamped as it is and reads clean
    afterwards: a later verify says what changed since the stamp, and nothing of the time before.
    """
    from kvaudit import api
    from kvaudit.cli.screen import progress, say
    from kvaudit.render.printable import printable

    with progress(quiet=quiet) as observer:
        dataset = api.open(files, expect=tuple(expect or ()))
        written = api.stamp(
            dataset, folder=to, backend=backend, combined=tuple(combined or ()), observer=observer
        )
    sys.stdout.writelines(f"{printable(str(path))}\n" for path in written)
    if not quiet:
        say("kvaudit: stamped as it is now: damage from before this moment reads clean")
    return ExitCode.CLEAN
