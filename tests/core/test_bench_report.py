from __future__ import annotations

import json

import pytest

from kvaudit.core.bench_report import BENCH_SCHEMA, Proof
from tests.helpers.bench_pools import report, row


def test_a_rate_is_of_the_bytes_that_every_entry_must_move() -> None:
    measured = row()
    assert measured.gb_per_s == pytest.approx(1000.0)
    assert measured.entries_per_s == pytest.approx(1e9)
    assert measured.fraction == pytest.approx(0.5)


def test_a_speedup_over_the_reference_is_by_the_entry_and_over_the_engine_by_the_launch() -> None:
    assert row().engine_speedup == pytest.approx(12.5)
    assert row().reference_speedup == pytest.approx(2000.0)


def test_what_did_not_run_has_no_speedup() -> None:
    alone = row(engine_seconds=None, reference_seconds_per_entry=None)
    assert alone.engine_speedup is None
    assert alone.reference_speedup is None


def test_the_document_says_what_was_proved_and_can_be_written_as_json() -> None:
    proof = Proof(reference_entries=7)
    document = json.loads(json.dumps(report(row(proof=proof)).to_dict()))
    assert document["schema"] == BENCH_SCHEMA == "kvaudit.bench/1"
    assert document["rows"][0]["proof"] == {
        "reference_entries": 7,
        "cpu_entries": None,
        "engine_entries": None,
    }
    assert document["rows"][0]["repeats_ms"] == [2.0, 1.0, 1.0]
