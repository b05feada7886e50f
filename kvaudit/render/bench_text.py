"""A benchmark as text for people: one table, then what its columns mean."""

from __future__ import annotations

from typing import TextIO

from rich.text import Text

from kvaudit.core.bench_report import BenchReport
from kvaudit.render.bench_labels import BenchTable, machine_label, note_labels, shape_label
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable
from kvaudit.render.text import print_lines


def bench_lines(report: BenchReport) -> list[Text]:
    """The whole result."""
    backend = report.backend
    why = f": {backend.reason}" if backend.reason else ""
    return [
        heading(f"bench {backend.name} ({printable(backend.device)})"),
        line(shape_label(report), indent=1),
        Text(),
        *_table_lines(report, indent=1),
        Text(),
        *(line((printable(note), "dim")) for note in note_labels(report)),
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
    print_lines(_table_lines(report, indent=0), stream, styled=styled, width=width)


def _table_lines(report: BenchReport, *, indent: int) -> list[Text]:
    table = BenchTable.of(report)
    return aligned([table.header, *table.rows], indent=indent, right=table.right)
