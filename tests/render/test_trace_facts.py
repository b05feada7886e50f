"""A recorded run in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvaudit.core.layout import SlotRanges
from kvaudit.core.recorded_step import Trace
from kvaudit.formats.trace_reader import open_trace
from kvaudit.render.trace_facts import trace_facts, written_rows
from tests.helpers.arrow_files import recorded_steps, write_trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return open_trace(write_trace(tmp_path / "a.plan.arrow", recorded_steps()))


def test_steps_requests_writes_and_launches_are_counted(trace: Trace) -> None:
    facts = trace_facts(trace)
    assert facts == {
        "file": trace.path,
        "kind": "plan",
        "key": {"pool": "FULL", "pool_kind": "FULL"},
        "rows": 4,
        "steps": "4-9",
        "steps_with_writes": 2,
        "requests": 2,
        "largest_batch": 2,
        "longest_request": "6 positions",
        "writes": 4,
        "copies": 2,
        "table_edits": 2,
        "freed": 2,
        "verify_plans": 1,
        "launches": {"TAIL_K_FULL": "2 steps", "TAIL_V_FULL": "2 steps"},
    }
    assert json.loads(json.dumps(facts)) == facts


def test_a_trace_without_rows_has_no_steps(tmp_path: Path) -> None:
    facts = trace_facts(open_trace(write_trace(tmp_path / "a.arrow", [])))
    assert (facts["steps"], facts["requests"], facts["launches"]) == ("none", 0, {})


def test_writes_of_slots_are_a_row_each_with_their_step(trace: Trace) -> None:
    assert list(written_rows(trace, SlotRanges.parse("9"))) == [
        {"slot": 9, "step": 4, "request": "b", "position": 1, "token": 22},
        {"slot": 9, "step": 5, "request": None, "position": 1, "token": 22},
    ]
    assert list(written_rows(trace, SlotRanges.parse("12"))) == []


def test_a_copy_to_a_slot_says_from_which(trace: Trace) -> None:
    assert list(written_rows(trace, SlotRanges.parse("11"))) == [
        {"slot": 11, "step": 4, "copied_from": 9}
    ]
