"""A benchmark as text for people: one table, then what its columns mean."""

from __future__ import annotations

from typing import TextIO

from rich.text import Text

from kvaudit.core.bench_report import BenchReport
from kvaudit.render.bench_labels import (
    ENGINE_NOTE,
    HEADER,
    REFERENCE_NOTE,
    RIGHT,
    machine_label,
    row_cells,
    shape_label,
    timing_label,
)
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable
from kvaudit.render.text import print_lines


def bench_lines(report: BenchReport) -> list[Text]:
    """The whole result."""
    backend = report.backend
    table = aligned([HEADER, *map(row_cells, report.rows)], right=RIGHT)
    notes = [f"time: {timing_label(report)}"]
    if any(row.engine_speedup is not None for row in report.rows):
        notes.append(ENGINE_NOTE)
    if any(row.reference_speedup is not None for row in report.rows):
        notes.append(REFERENCE_NOTE)
    notes += [f"left out: {reason}" for reason in report.left_out]
    why = f": {backend.reason}" if backend.reason else ""
    return [
        heading(f"bench {backend.name} ({printable(backend.device)})"),
        line(shape_label(report), indent=1),
        Text(),
        *table,
        Text(),
        *(line((printable(note), "dim")) for note in notes),
        line((f"backend {backend.name}{printable(why)}", "dim")),
        line((f"machine {machine_label(report)}", "dim")),
        line((f"command {printable(report.command)}", "dim")),
    ]


def write_bench_text(
    report: BenchReport, stream: TextIO, *, styled: bool = False, width: int | None = None
) -> None:
    """Write the whole result."""
    print_lines(bench_lines(report), stream, styled=styled, width=width)


def write_bench_rows(
    report: BenchReport, stream: TextIO, *, styled: bool = False, width: int | None = None
) -> None:
    """Write the table, and nothing else."""
    table = aligned([HEADER, *map(row_cells, report.rows)], indent=0, right=RIGHT)
    print_lines(table, stream, styled=styled, width=width)
