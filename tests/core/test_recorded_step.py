"""The parts of a recorded step hold together, or are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.plan import PlannedWrite, WritePlan
from kvaudit.core.recorded_step import (
    NO_COPIES,
    NO_EDITS,
    NONE_FREED,
    FreedRequests,
    RecordedBatch,
    RecordedStep,
    SlotCopies,
    TableEdits,
)
from kvaudit.errors import ValuesInvalid


def int64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def edits() -> TableEdits:
    return TableEdits(
        request_index=int64(1, 4), positions=int64(0, 7), lens=int64(2, 1), slots=int64(5, 6, -1)
    )


def batch(num_requests: int) -> RecordedBatch:
    ones = np.ones(num_requests, dtype=np.int64)
    return RecordedBatch(request_index=ones, prefix_lens=ones, extend_seq_lens=ones)


def write(num_seeds: int) -> PlannedWrite:
    none = int64()
    plan = WritePlan(
        write_offsets=np.zeros(num_seeds + 1, dtype=np.int64),
        write_seed_slot_indices=np.zeros(num_seeds, dtype=np.int64),
        num_valid_reqs=num_seeds,
    )
    return PlannedWrite(plan=plan, input_ids=none, positions=none, out_cache_loc=none)


def test_edits_are_handed_out_one_by_one() -> None:
    found = [(row, first, slots.tolist()) for row, first, slots in edits()]
    assert found == [(1, 0, [5, 6]), (4, 7, [-1])]


def test_a_step_that_says_nothing_changes_nothing() -> None:
    step = RecordedStep(step=3)
    assert (step.edits, step.freed, step.copies) == (NO_EDITS, NONE_FREED, NO_COPIES)
    assert (step.batch, step.write, step.verify, step.tags) == (None, None, None, None)
    assert list(NO_EDITS) == []
    assert not NO_EDITS.slots.flags.writeable


def test_lists_of_different_lengths_are_refused() -> None:
    for change in ({"slots": int64(5, 6)}, {"positions": int64(0)}, {"lens": int64(3)}):
        with pytest.raises(ValuesInvalid):
            replace(edits(), **change)
    with pytest.raises(ValuesInvalid):
        FreedRequests(request_index=int64(1), lens=int64())
    with pytest.raises(ValuesInvalid):
        SlotCopies(src=int64(1, 2), dst=int64(3))
    with pytest.raises(ValuesInvalid):
        replace(batch(2), prefix_lens=int64(1))


def test_a_batch_has_a_seed_for_each_request() -> None:
    assert RecordedStep(step=1, batch=batch(2), write=write(3)).batch is not None
    with pytest.raises(ValuesInvalid):
        RecordedStep(step=1, batch=batch(3), write=write(2))
