"""A benchmark as one page: no script, nothing loaded from anywhere, every word escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from html import escape
from typing import Final, TextIO

from kvaudit.core.bench_report import BenchReport
from kvaudit.render.bench_chart import bandwidth_chart
from kvaudit.render.bench_labels import BenchTable, machine_label, note_labels, shape_label

_STYLE: Final = """
body { font: 14px/1.45 system-ui, sans-serif; color: #1b1f24; margin: 2em auto; max-width: 75em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 2em; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3em .8em; border-bottom: 1px solid #d8dee4; text-align: left; }
.number { text-align: right; }
svg { max-width: 100%; height: auto; } svg text { font-size: 13px; fill: #1b1f24; }
svg text.tick { font-size: 11px; fill: #6e7781; } line.tick { stroke: #d8dee4; }
rect { fill: #57606a; } rect.fold { fill: #0969da; } rect.verify { fill: #1a7f37; }
rect.write { fill: #bc4c00; } rect.plan { fill: #8250df; }
code { background: #f6f8fa; padding: .15em .4em; } p.note { color: #57606a; margin: .3em 0; }
"""


def bench_page(report: BenchReport) -> str:
    """The whole page."""
    backend = report.backend
    title = f"kvaudit bench {backend.name} ({backend.device})"
    table = BenchTable.of(report)
    notes = [
        *note_labels(report),
        f"backend {backend.name}: {backend.reason}",
        f"machine {machine_label(report)}",
    ]
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        f"<h1>{escape(title)}</h1>\n<p>{escape(shape_label(report))}</p>",
        "<h2>Rate as a fraction of the bandwidth measured in the same run</h2>",
        bandwidth_chart(report.rows),
        "<h2>Figures</h2>\n<table>",
        _line(table.header, tag="th", right=table.right),
        *(_line(cells, tag="td", right=table.right) for cells in table.rows),
        "</table>",
        *(f'<p class="note">{escape(note)}</p>' for note in notes),
        f"<p><code>{escape(report.command)}</code></p>\n</body>\n</html>",
    ]
    return "\n".join(parts) + "\n"


def write_bench_html(report: BenchReport, stream: TextIO) -> None:
    """Write the page."""
    stream.write(bench_page(report))


def _line(cells: Iterable[str], *, tag: str, right: Collection[int]) -> str:
    """A line of the table; right: the columns of numbers."""
    words = (
        f"<{tag}{' class=number' if column in right else ''}>{escape(cell)}</{tag}>"
        for column, cell in enumerate(cells)
    )
    return f"<tr>{''.join(words)}</tr>"
