"""The cells of a benchmark's table, the same on a terminal and on a page."""

from __future__ import annotations

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
# Columns of numbers, which end at one place.
RIGHT: Final = (2, 3, 4, 5, 7, 8)
ENGINE_NOTE: Final = (
    "engine: how many times faster than a launch in an engine's own shape: 64 blocks of 512 threads, "
    "one thread an entry (write: a request), 16-byte loads, the fold in line"
)
REFERENCE_NOTE: Final = (
    "reference: how many times faster than the plain Python kernels, by the entry"
)
_GRAND: Final = 10
_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def row_cells(row: BenchRow) -> tuple[str, ...]:
    """A row of the table under HEADER."""
    return (
        row.op,
        row.real_kv or "-",
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
    """A positive number with two or three digits that count."""
    return f"{value:.2f}" if value < _GRAND else f"{value:,.0f}"


def rate_label(per_second: float) -> str:
    """`3.12 G`, `450 M`: what happens a second."""
    for unit, name in _UNITS:
        if per_second >= unit:
            return f"{number_label(per_second / unit)} {name}"
    return number_label(per_second)


def fraction_label(row: BenchRow) -> str:
    """`0.88 of 4,210 read`."""
    return f"{share_label(row.fraction)} of {number_label(row.yardstick.gb_per_s)} {row.yardstick.name}"


def share_label(share: float) -> str:
    """`0.88`, `0.0024`: a small share keeps two digits too."""
    return f"{share:.2f}" if share >= 1 / _GRAND else f"{share:.2g}"


def times_label(speedup: float | None) -> str:
    """`12.3x`; `-` where there is nothing to compare with."""
    if speedup is None:
        return "-"
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
    return (
        f"{settings['bytes_per_token']:,} B a slot, pages of {settings['page_size']} in random "
        f"order, requests of {settings['request_tokens']:,} tokens"
    )


def timing_label(report: BenchReport) -> str:
    """What the milliseconds are."""
    return f"median of {report.settings['repeats']}, {report.timed_by}"


def machine_label(report: BenchReport) -> str:
    """The host and the versions, on one line."""
    facts = (f"{name} {value}" for name, value in report.machine.items())
    return listed(list(facts), most=len(report.machine))
