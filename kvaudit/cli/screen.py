"""The two streams of a command: data on stdout, progress on stderr. Reads what they are, once."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from kvaudit.cli.options import ColorMode, OutputFormat

if TYPE_CHECKING:
    from rich.text import Text

    from kvaudit.core.observer import RunObserver


def is_styled(color: ColorMode, stream: TextIO) -> bool:
    """Whether colours are written to a stream."""
    if color is not ColorMode.AUTO:
        return color is ColorMode.ALWAYS
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def width_of(stream: TextIO) -> int | None:
    """Columns of a terminal; None for anything else, whose lines stay whole."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def say(text: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(f"{text}\n")


def complain(message: str, *, hint: str) -> None:
    """An error and the next thing to try, on stderr."""
    from kvaudit.render.printable import printable

    say(f"kvaudit: error: {printable(message)}")
    if hint:
        say(f"  hint: {printable(hint)}")


@contextmanager
def progress(*, quiet: bool) -> Iterator[RunObserver]:
    """Draws the progress of the run inside it, unless quiet."""
    if quiet:
        from kvaudit.core.observer import SilentObserver

        yield SilentObserver()
        return
    from kvaudit.render.progress import ProgressDisplay

    with ProgressDisplay(sys.stderr) as display:
        yield display


def write_facts(facts: dict[str, Any], *, form: OutputFormat, color: ColorMode) -> None:
    """Write named values to stdout, as lines or as one JSON document."""
    from kvaudit.render.fact_list import fact_list

    write_document(facts, fact_list(facts), form=form, color=color)


def write_document(
    document: dict[str, Any], lines: Iterable[Text], *, form: OutputFormat, color: ColorMode
) -> None:
    """Write one thing to stdout, as a JSON document or as its lines."""
    stdout = sys.stdout
    if form is OutputFormat.JSON:
        import json

        json.dump(document, stdout, indent=2)
        stdout.write("\n")
        return
    from kvaudit.render.text import print_lines

    print_lines(lines, stdout, styled=is_styled(color, stdout), width=width_of(stdout))
