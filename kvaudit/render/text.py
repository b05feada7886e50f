"""A Report as text for people: the verdict first, then what supports it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console
from rich.text import Text

from kvaudit.core.report import Report
from kvaudit.core.size_label import bytes_label
from kvaudit.render.chain_table import chain_table
from kvaudit.render.coverage_table import coverage_table
from kvaudit.render.finding_list import finding_list
from kvaudit.render.leg_table import leg_table
from kvaudit.render.lines import heading, line
from kvaudit.render.printable import printable
from kvaudit.render.tag_table import tag_table
from kvaudit.render.token_labels import TokenWords
from kvaudit.render.verdict_line import not_checked, verdict_line
from kvaudit.render.violation_ring import violation_ring


def text_lines(report: Report, words: TokenWords | None = None, *, step: str = "") -> list[Text]:
    """The whole report; sections are parted by an empty line.

    Args:
        report: the report.
        words: says the words of tokens, which are parts of prompts; None = they stay numbers.
        step: the command to run next; "" = none.
    """
    sections = [
        [verdict_line(report)],
        not_checked(report),
        finding_list(report.findings, names_pool=len(report.page_sizes) > 1, words=words),
        coverage_table(report.coverage),
        tag_table(report.tags),
        chain_table(report.chains),
        leg_table(report.legs),
        violation_ring(report, words),
        [heading("next"), line(printable(step), indent=1)] if step else [],
        backend_lines(report),
    ]
    lines: list[Text] = []
    for section in filter(None, sections):
        if lines:
            lines.append(Text())
        lines += section
    return lines


def backend_lines(report: Report) -> list[Text]:
    """Who computed it and why, and how fast."""
    backend, timing = report.backend, report.timing
    why = f": {backend.reason}" if backend.reason else ""
    pace = [f"self-check {report.self_check}", f"{timing.seconds:.2f} s"]
    if timing.kv_bytes:
        pace.append(f"{bytes_label(timing.kv_bytes)} of KV at {timing.gb_per_s:.2f} GB/s")
    return [
        line((f"backend {backend.name} ({printable(backend.device)}){printable(why)}", "dim")),
        line((" · ".join(pace), "dim")),
    ]


def print_lines(
    lines: Iterable[Text], stream: TextIO, *, styled: bool = False, width: int | None = None
) -> None:
    """Write lines.

    Args:
        lines: what to write.
        stream: where.
        styled: whether colours and weights are written.
        width: the terminal's width, at which long lines fold; None leaves every line whole.
    """
    if not styled and width is None:
        stream.writelines(f"{text.plain}\n" for text in lines)
        return
    console = Console(
        file=stream,
        force_terminal=styled,
        color_system="standard" if styled else None,
        width=width,
        no_color=not styled,
    )
    for text in lines:
        if width is None:
            console.print(text, soft_wrap=True, highlight=False)
        else:
            console.print(text, overflow="fold", highlight=False)


def write_text(
    report: Report,
    stream: TextIO,
    *,
    words: TokenWords | None = None,
    step: str = "",
    styled: bool = False,
    width: int | None = None,
) -> None:
    """Write the whole report; words and step as in `text_lines`."""
    print_lines(text_lines(report, words, step=step), stream, styled=styled, width=width)


def write_verdict(
    report: Report, stream: TextIO, *, styled: bool = False, width: int | None = None
) -> None:
    """Write the verdict with its scope, and nothing else."""
    print_lines([verdict_line(report)], stream, styled=styled, width=width)
