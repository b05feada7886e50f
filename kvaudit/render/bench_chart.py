"""A bar a row, as an inline SVG: the rate as a fraction of the bandwidth of the same run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from kvaudit.core.bench_report import BenchRow
from kvaudit.render.bench_labels import ms_label, number_label, row_name

_WIDTH: Final = 960
_NAME_WIDTH: Final = 230
_VALUE_WIDTH: Final = 250
_BAR_WIDTH: Final = _WIDTH - _NAME_WIDTH - _VALUE_WIDTH
_ROW_HEIGHT: Final = 26
_BAR_HEIGHT: Final = 16
_TOP: Final = 24
_TICKS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


def bandwidth_chart(rows: Sequence[BenchRow]) -> str:
    """The chart; bars are as long as the largest fraction wants, and at least 1.0 fits."""
    scale = _BAR_WIDTH / max(1.0, *(row.fraction for row in rows))
    height = _TOP + _ROW_HEIGHT * len(rows) + 8
    title = "rate as a fraction of the bandwidth measured in the same run"
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    parts = [
        f'<svg {size} role="img" aria-label="{escape(title)}">',
        *(_tick(tick, scale=scale, height=height) for tick in _TICKS),
        *(_bar(number, row, scale=scale) for number, row in enumerate(rows)),
        "</svg>",
    ]
    return "\n".join(parts)


def _tick(tick: float, *, scale: float, height: int) -> str:
    x = _NAME_WIDTH + tick * scale
    return (
        f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height - 4}"/>'
        f'<text class="tick" x="{x:.1f}" y="{_TOP - 10}" text-anchor="middle">{tick:.2f}</text>'
    )


def _bar(number: int, row: BenchRow, *, scale: float) -> str:
    y = _TOP + number * _ROW_HEIGHT
    middle = y + _BAR_HEIGHT / 2 + 5
    length = row.fraction * scale
    value = f"{number_label(row.fraction)}  {number_label(row.gb_per_s)} GB/s  {ms_label(row.median)} ms"
    name = escape(row_name(row))
    return (
        f'<text x="{_NAME_WIDTH - 8}" y="{middle:.1f}" text-anchor="end">{name}</text>'
        f'<rect class="{escape(row.op)}" x="{_NAME_WIDTH}" y="{y}" width="{max(length, 1):.1f}" '
        f'height="{_BAR_HEIGHT}"><title>{name}</title></rect>'
        f'<text x="{_NAME_WIDTH + length + 8:.1f}" y="{middle:.1f}">{escape(value)}</text>'
    )
