"""`kvaudit show`: what a file is, and what it says of a few slots."""

from __future__ import annotations

from typing import Annotated

import typer

from kvaudit.cli.exit_code import ExitCode
from kvaudit.cli.options import Color, ColorMode, Format, OutputFormat
from kvaudit.cli.screen import write_facts

File = Annotated[
    str, typer.Argument(metavar="FILE", help="A snapshot, sequences, plan, state or table file.")
]
Slots = Annotated[
    str | None,
    typer.Option(
        metavar="A-B",
        envvar="KVAUDIT_SLOT",
        help="Print what the file says of these slots too: 7, 0-15 or 0,4-7.",
    ),
]


def show(
    file: File,
    *,
    slot: Slots = None,
    format: Format = OutputFormat.TEXT,  # noqa: A002 - the option's name
    color: Color = ColorMode.AUTO,
) -> ExitCode:
    """Describe a file: its kind, pairing key, geometry, columns, digests and rows.

    A plan whose verify entries are left to be derived is the trace of a run: its steps, requests and
    writes are counted. With --slot, also what the file says of those slots: a snapshot's records,
    the requests of a sequences file, the entries of a plan, the writes and copies of a trace, or the
    rows of a state's ring. Nothing is judged.
    """
    from kvaudit.core.layout import SlotRanges
    from kvaudit.formats.trace_reader import read_file_or_trace
    from kvaudit.render.file_facts import file_facts
    from kvaudit.render.slot_rows import slot_rows

    slots = None if slot is None else SlotRanges.parse(slot)
    content = read_file_or_trace(file)
    facts = file_facts(content)
    if slots is not None:
        # The ring's rows of these slots take the place of them all.
        facts.pop("ring", None)
        facts["slot_rows"] = slot_rows(content, slots)
    write_facts(facts, form=format, color=color)
    return ExitCode.CLEAN
