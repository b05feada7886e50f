from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.layout import SlotRanges
from kvaudit.formats.trace_reader import open_trace
from kvaudit.render.slot_rows import slot_rows
from tests.helpers.arrow_files import canary_state, recorded_steps, write_trace
from tests.render.test_file_facts import plan, sequences, snapshot

SLOTS = SlotRanges(((3, 9),))


def test_a_snapshot_shows_the_records_of_its_slots() -> None:
    rows = slot_rows(snapshot(), SLOTS)
    assert [row["slot"] for row in rows] == [3, 4, 9]
    assert rows[0] == {
        "slot": 3,
        "page": "1 +1",
        "record": "k.tail",
        "token": 11,
        "position": 0,
        "prev_hash": "0x0000000000000000",
        "real_kv_hash": "0x0000000000000000",
    }


def test_a_snapshot_without_records_shows_its_evidence() -> None:
    states = ArrayColumn(
        name="alloc.state", values=np.array(["live", "free", None, "live"], dtype=object)
    )
    refs = ArrayColumn(name="alloc.ref", values=np.array([1, 0, 0, 2], dtype=np.int32))
    content = replace(snapshot(), canary={}, evidence={"alloc.state": states, "alloc.ref": refs})
    rows = slot_rows(content, SlotRanges(((9, 9),)))
    assert rows == [{"slot": 9, "page": "4 +1", "alloc.state": "live", "alloc.ref": 2}]
    assert json.dumps(rows)


def test_sequences_show_who_owns_the_slots() -> None:
    assert slot_rows(sequences(), SLOTS) == [
        {"slot": 3, "request": "A", "position": 1, "token": 12, "written": True}
    ]


def test_a_plan_shows_its_active_entries() -> None:
    assert slot_rows(plan(), SlotRanges(((0, 9),))) == [
        {"slot": 2, "row": 0, "step": 120, "entry": 0, "position": 0, "token": 11, "prev_slot": -1},
        {"slot": 3, "row": 0, "step": 120, "entry": 1, "position": 1, "token": 12, "prev_slot": 2},
    ]


def test_states_and_traces_show_rows_of_their_own(tmp_path: Path) -> None:
    assert [row["slot"] for row in slot_rows(canary_state(), SLOTS)] == [5, 7]
    trace = open_trace(write_trace(tmp_path / "a.arrow", recorded_steps()))
    assert [(row["step"], row["slot"]) for row in slot_rows(trace, SLOTS)] == [
        (4, 7),
        (4, 9),
        (5, 7),
        (5, 9),
    ]
