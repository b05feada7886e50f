"""The cells of a benchmark's table, the same on a terminal and on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvaudit.core.bench_report import BenchReport, BenchRow
from kvaudit.render.labels import listed

HEADER: Final = (
    "op",
    "real-kv",
    "entries",
    "ms",
    "GB/s",
    "entries/s",
    "of bandwidth",
    "engine",
    "reference",
    "proved equal to",
)
# Of them those of numbers, which end at one place.
NUMBERS: Final = frozenset({"entries", "ms", "GB/s", "entries/s", "engine", "reference"})
NOTHING: Final = "-"
ENGINE_NOTE: Final = (
    "engine: how many times faster than a launch in an engine's own shape: 64 blocks of 512 threads, "
    "one thread an entry (write: a request), 16-byte loads, the fold in line"
)
REFERENCE_NOTE: Final = (
    "reference: how many times faster than the plain Python kernels, by the entry"
)
_GRAND: Final = 10
_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTable:
    """The table without the columns in which no row has anything.

    Fields:
        header: what stands over each column.
        rows: the cells of each row.
        right: the columns of numbers.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int]

    @classmethod
    def of(cls, report: BenchReport) -> BenchTable:
        """The table of a run."""
        rows = [row_cells(row) for row in report.rows]
        used = [
            column for column in range(len(HEADER)) if {row[column] for row in rows} != {NOTHING}
        ]
        header = [HEADER[column] for column in used]
        return cls(
            header=header,
            rows=[[row[column] for column in used] for row in rows],
            right=[place for place, name in enumerate(header) if name in NUMBERS],
        )


def note_labels(report: BenchReport) -> list[str]:
    """What was timed, what the columns of factors mean where a row has one, and what was left out."""
    notes = [f"time: {timing_label(report)}"]
    if any(row.engine_speedup is not None for row in report.rows):
        notes.append(ENGINE_NOTE)
    if any(row.reference_speedup is not None for row in report.rows):
        notes.append(REFERENCE_NOTE)
    return [*notes, *(f"left out: {reason}" for reason in report.left_out)]


def row_cells(row: BenchRow) -> tuple[str, ...]:
    """A row of the table under HEADER."""
    return (
        row.op,
        row.real_kv or NOTHING,
        f"{row.num_entries:,}",
        ms_label(row.median),
        number_label(row.gb_per_s),
        rate_label(row.entries_per_s),
        fraction_label(row),
        times_label(row.engine_speedup),
        times_label(row.reference_speedup),
        proof_label(row),
    )


def row_name(row: BenchRow) -> str:
    """`verify all 1,048,576`."""
    return " ".join(word for word in (row.op, row.real_kv, f"{row.num_entries:,}") if word)


def ms_label(seconds: float) -> str:
    """Milliseconds with about four digits."""
    ms = seconds * 1e3
    return f"{ms:.4f}" if ms < 1 else f"{ms:.3f}" if ms < _GRAND else f"{ms:,.1f}"


def number_label(value: float) -> str:
    """A positive number with two or three digits that count, however small it is."""
    if value >= _GRAND:
        return f"{value:,.0f}"
    return f"{value:.{max(2, 1 - math.floor(math.log10(value)))}f}"


def rate_label(per_second: float) -> str:
    """`3.12 G`, `450 M`: what happens a second."""
    for unit, name in _UNITS:
        if per_second >= unit:
            return f"{number_label(per_second / unit)} {name}"
    return number_label(per_second)


def fraction_label(row: BenchRow) -> str:
    """`0.88 of 4,210 read`, `0.0024 of 15 read`."""
    return f"{number_label(row.fraction)} of {number_label(row.yardstick.gb_per_s)} {row.yardstick.name}"


def times_label(speedup: float | None) -> str:
    """`12.3x`; `-` where there is nothing to compare with."""
    if speedup is None:
        return NOTHING
    return f"{speedup:,.0f}x" if speedup >= 100 * _GRAND else f"{speedup:.1f}x"


def proof_label(row: BenchRow) -> str:
    """`reference 23,424 · cpu all · engine all`: entries compared with each, before the timing."""
    counts = {
        "reference": row.proof.reference_entries,
        "cpu": row.proof.cpu_entries,
        "engine": row.proof.engine_entries,
    }
    return " · ".join(
        f"{name} {'all' if count == row.num_entries else f'{count:,}'}"
        for name, count in counts.items()
        if count is not None
    )


def shape_label(report: BenchReport) -> str:
    """What the sizes mean."""
    settings = report.settings
    layers = settings["layers"]
    side_by_side = "" if layers == 1 else f" in each of {layers:,} layers side by side"
    return (
        f"{settings['bytes_per_token']:,} B a slot{side_by_side}, pages of {settings['page_size']} "
        f"in random order, requests of {settings['request_tokens']:,} tokens"
    )


def timing_label(report: BenchReport) -> str:
    """What the milliseconds are."""
    return f"median of {report.settings['repeats']}, {report.timed_by}"


def machine_label(report: BenchReport) -> str:
    """The host and the versions, on one line."""
    facts = (f"{name} {value}" for name, value in report.machine.items())
    return listed(list(facts), most=len(report.machine))
