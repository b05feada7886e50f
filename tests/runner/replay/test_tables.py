from __future__ import annotations

import numpy as np
import pytest
import torch

from kvaudit.core.plan import PlannedWrite, WritePlan
from kvaudit.core.recorded_step import (
    FreedRequests,
    RecordedBatch,
    RecordedStep,
    TableEdits,
    TraceExtent,
)
from kvaudit.errors import LimitExceeded
from kvaudit.runner.replay.tables import ReplayTables

SHIFT = 4
ON_A_DEVICE = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


def int64(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def extent(**changes: int) -> TraceExtent:
    sizes = {"num_request_rows": 4, "max_len": 6, "max_requests": 3, "max_verify_entries": 9}
    return TraceExtent(num_rows=1, first_step=1, last_step=1, **{**sizes, **changes})


def tables_on(device: str = "cpu", **sizes: int) -> ReplayTables:
    return ReplayTables(
        extent(**sizes), path="t", num_slots=64, highest_slot=99, device=torch.device(device)
    )


def write(slots: np.ndarray, *, offsets: np.ndarray, names: list[str]) -> PlannedWrite:
    plan = WritePlan(
        write_offsets=offsets,
        write_seed_slot_indices=np.full(len(offsets) - 1, -1),
        num_valid_reqs=len(offsets) - 1,
    )
    return PlannedWrite(
        plan=plan, input_ids=slots, positions=slots, out_cache_loc=slots, request_ids=names
    )


def batch(rows: np.ndarray, prefix_lens: np.ndarray) -> RecordedBatch:
    return RecordedBatch(
        request_index=rows, prefix_lens=prefix_lens, extend_seq_lens=np.ones_like(rows)
    )


def edited(tables: ReplayTables, row: int, first: int, slots: np.ndarray) -> None:
    edits = TableEdits(
        request_index=int64(row), positions=int64(first), lens=int64(len(slots)), slots=slots
    )
    tables.change(RecordedStep(step=1, edits=edits), shift=SHIFT)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_A_DEVICE)])
def test_the_launches_read_what_edits_writes_and_ends_left(device: str) -> None:
    tables = tables_on(device)
    edited(tables, 1, 0, int64(3, -1, 7))
    step = write(int64(8, 9, -1), offsets=int64(0, 1, 3), names=["a", "b"])
    its_batch = batch(int64(1, 2), int64(3, 0))
    tables.fill(tables.written_positions(its_batch, step, shift=SHIFT), its_batch, step)
    assert tables.req_to_token.cpu()[1:3].tolist() == [[7, 0, 11, 12, 0, 0], [13, 0, 0, 0, 0, 0]]
    freed = FreedRequests(request_index=int64(1, 99), lens=int64(3, 1))
    tables.change(RecordedStep(step=2, freed=freed), shift=SHIFT)
    assert tables.req_to_token.cpu()[1].tolist() == [0] * 6
    assert [(name, slots.tolist()) for name, _, slots in tables.finished] == [("a#1", [7, 0, 11])]
    assert tables.row_of == {"b": 2}


def test_entries_are_clamped_as_the_launch_clamps_them() -> None:
    tables = tables_on()
    # The second pair decreases, the third reaches past the tokens; row 0 is padding.
    step = write(int64(8, 9, 10), offsets=int64(0, 2, 1, 99), names=["a", "b", "c"])
    written = tables.written_positions(batch(int64(1, 2, 3), int64(5, 0, 0)), step, shift=0)
    # Position 6 of row 1 is past the table.
    assert written.rows.tolist() == [1, 3, 3]
    assert written.positions.tolist() == [5, 0, 1]
    assert written.slots.tolist() == [8, 9, 10]
    padding = tables.written_positions(batch(int64(0, 2, 3), int64(0, 0, 0)), step, shift=0)
    assert padding.rows.tolist() == [3, 3]


def test_a_wild_slot_becomes_one_outside_the_pool() -> None:
    tables = tables_on()
    launched = tables.as_launched(int64(-5, 0, 1 << 40, 63), shift=SHIFT)
    assert launched.tolist() == [0, 4, 99, 67]


def test_holders_are_those_that_run_and_then_those_that_ended() -> None:
    tables = tables_on()
    tables.finished.add("old", int64(20, 21))
    step = write(int64(17), offsets=int64(0, 1), names=["new"])
    its_batch = batch(int64(2), int64(1))
    tables.fill(tables.written_positions(its_batch, step, shift=SHIFT), its_batch, step)
    assert list(tables.holders_of(21)) == [("new", 1), ("old", 1)]
    assert tables.name_of(2) == "new"
    assert tables.name_of(1) == ""
    assert tables.held_slots(2, 1, 9).tolist() == [21, *[0] * 8]


def test_a_row_that_is_given_to_another_request_is_no_longer_the_firsts() -> None:
    tables = tables_on()
    for name in ("a", "b"):
        step = write(int64(8), offsets=int64(0, 1), names=[name])
        its_batch = batch(int64(1), int64(0))
        tables.fill(tables.written_positions(its_batch, step, shift=0), its_batch, step)
        freed = FreedRequests(request_index=int64(1), lens=int64(0))
        tables.change(RecordedStep(step=2, freed=freed), shift=0)
    assert tables.row_of == {}
    assert tables.name_of(1) == ""


def test_a_table_that_cannot_fit_is_refused_by_the_trace() -> None:
    with pytest.raises(LimitExceeded, match="table of 1,048,576 requests") as caught:
        tables_on(num_request_rows=1 << 20, max_len=1 << 30)
    assert caught.value.path == "t"
