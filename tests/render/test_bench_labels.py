from __future__ import annotations

import pytest

from kvaudit.core.bench_report import Proof
from kvaudit.render.bench_labels import (
    HEADER,
    BenchTable,
    machine_label,
    ms_label,
    number_label,
    proof_label,
    rate_label,
    row_cells,
    row_name,
    shape_label,
    times_label,
    timing_label,
)
from tests.helpers.bench_pools import report, row


def test_a_row_has_a_cell_under_every_heading() -> None:
    assert dict(zip(HEADER, row_cells(row()), strict=True)) == {
        "op": "verify",
        "real-kv": "all",
        "entries": "1,000,000",
        "ms": "1.000",
        "GB/s": "1,000",
        "entries/s": "1.00 G",
        "of bandwidth": "0.50 of 2,000 read",
        "engine": "12.5x",
        "reference": "2,000x",
        "proved equal to": "reference 23,424 · cpu all · engine all",
    }
    table = BenchTable.of(report())
    assert list(table.header) == list(HEADER)
    assert list(table.right) == [2, 3, 4, 5, 7, 8]


def test_what_a_row_has_not_reads_as_a_dash() -> None:
    cells = row_cells(row(real_kv=None, engine_seconds=None, reference_seconds_per_entry=None))
    assert [cells[column] for column in (1, 7, 8)] == ["-", "-", "-"]
    assert row_name(row(real_kv=None)) == "verify 1,000,000"
    assert row_name(row()) == "verify all 1,000,000"


def test_a_column_in_which_no_row_has_anything_is_left_out() -> None:
    alone = row(real_kv=None, engine_seconds=None)
    table = BenchTable.of(report(alone))
    assert set(HEADER) - set(table.header) == {"real-kv", "engine"}
    assert [len(cells) for cells in table.rows] == [len(table.header)]
    assert [table.header[column] for column in table.right] == [
        "entries",
        "ms",
        "GB/s",
        "entries/s",
        "reference",
    ]
    assert list(BenchTable.of(report(alone, row())).header) == list(HEADER)


def test_a_proof_names_whom_it_was_made_against_and_how_much_of_the_input() -> None:
    whole = Proof(reference_entries=1_000_000)
    assert proof_label(row(proof=whole)) == "reference all"
    sampled = Proof(reference_entries=4096, cpu_entries=1_000_000)
    assert proof_label(row(proof=sampled)) == "reference 4,096 · cpu all"


@pytest.mark.parametrize(
    ("seconds", "label"),
    [
        (2.1e-5, "0.0210"),
        (9.99e-4, "0.9990"),
        (0.00123, "1.230"),
        (0.3456, "345.6"),
        (2, "2,000.0"),
    ],
)
def test_milliseconds_keep_about_four_digits(seconds: float, label: str) -> None:
    assert ms_label(seconds) == label


@pytest.mark.parametrize(
    ("value", "number", "rate"),
    [(0.5, "0.50", "0.50"), (9.99, "9.99", "9.99"), (45, "45", "45"), (4210, "4,210", "4.21 k")],
)
def test_numbers_keep_two_or_three_digits(value: float, number: str, rate: str) -> None:
    assert number_label(value) == number
    assert rate_label(value) == rate


def test_a_small_number_is_neither_rounded_to_nothing_nor_an_exponent() -> None:
    numbers = (1.2, 0.885, 0.1, 0.0234, 0.00093, 0.000072)
    assert [number_label(number) for number in numbers] == [
        "1.20",
        "0.89",
        "0.10",
        "0.023",
        "0.00093",
        "0.000072",
    ]


def test_rates_have_units_of_1000() -> None:
    assert rate_label(3.1e10) == "31 G"
    assert rate_label(6.04e7) == "60 M"


def test_large_factors_have_no_decimals() -> None:
    assert [times_label(factor) for factor in (None, 0.97, 60.4, 31234.5)] == [
        "-",
        "1.0x",
        "60.4x",
        "31,234x",
    ]


def test_the_report_says_what_the_sizes_mean_and_what_was_timed_where() -> None:
    assert shape_label(report()) == (
        "1,000 B a slot, pages of 16 in random order, requests of 32,768 tokens"
    )
    assert timing_label(report()) == "median of 3, CUDA events"
    assert machine_label(report()) == "system Linux x86_64, numba 0.68.1"
