"""Traces come back step by step, and are measured before."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.core.plan import PlanDump
from kvaudit.core.recorded_step import RecordedStep, TraceExtent
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import FileCorrupt, LimitExceeded, SchemaMismatch, ValuesInvalid
from kvaudit.formats import rows, trace_writer
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.formats.trace_reader import FileTrace, open_trace, read_file_or_trace
from tests.helpers.arrow_files import (
    KEY,
    int64,
    plan,
    plan_columns,
    recorded_steps,
    snapshot,
    trace_columns,
    write_by_hand,
    write_trace,
)


def assert_same(found, wanted):
    """Two dataclasses, arrays or plain values, compared part by part."""
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    elif is_dataclass(wanted):
        for field in fields(wanted):
            assert_same(getattr(found, field.name), getattr(wanted, field.name))
    else:
        assert found == wanted


@pytest.mark.parametrize("batch_steps", [1, 3, 100])
def test_every_step_comes_back_in_order_as_often_as_it_is_walked(
    tmp_path, monkeypatch, batch_steps
):
    monkeypatch.setattr(trace_writer, "MAX_BATCH_STEPS", batch_steps)
    trace = open_trace(write_trace(tmp_path / "a.arrow", recorded_steps(), key=KEY))
    assert trace.path == str(tmp_path / "a.arrow")
    assert trace.key == replace(KEY, step=None)
    for _ in range(2):
        found = list(trace.steps())
        assert len(found) == 4
        for step, wanted in zip(found, recorded_steps(), strict=True):
            assert_same(step, wanted)


def test_the_extent_is_what_a_replay_allocates(tmp_path):
    assert open_trace(write_trace(tmp_path / "a.arrow", recorded_steps())).extent == TraceExtent(
        num_rows=4,
        first_step=4,
        last_step=9,
        num_request_rows=3,
        max_len=6,
        max_requests=2,
        max_verify_entries=3,
    )


def test_an_empty_trace_has_no_steps(tmp_path):
    trace = open_trace(write_trace(tmp_path / "a.arrow", []))
    assert list(trace.steps()) == []
    assert (trace.extent.first_step, trace.extent.last_step) == (None, None)
    assert (trace.extent.num_rows, trace.extent.num_request_rows, trace.extent.max_len) == (0, 1, 0)


def test_a_trace_by_hand_needs_only_the_columns_it_uses(tmp_path):
    first, second = open_trace(write_by_hand(tmp_path / "a.arrow", "plan", trace_columns())).steps()
    assert (first.step, first.tags, first.verify) == (7, None, None)
    assert first.write.request_ids is None
    assert second.write.out_cache_loc.tolist() == [5, 6]
    assert (
        first.write.enable_chain_position_assert,
        second.write.enable_chain_position_assert,
    ) == (
        False,
        True,
    )
    assert second.batch.prefix_lens.tolist() == [1]


def test_a_plan_that_writes_nothing_is_a_trace_of_its_verify_halves(tmp_path):
    (step,) = open_trace(write_by_hand(tmp_path / "a.arrow", "plan", plan_columns())).steps()
    assert (step.write, step.batch) == (None, None)
    assert step.verify.plan.verify_slot_indices.tolist() == [4, 5]


def test_values_are_read_only_and_not_copied(tmp_path):
    first = next(open_trace(write_trace(tmp_path / "a.arrow", recorded_steps())).steps())
    for array in (first.write.input_ids, first.batch.prefix_lens, first.edits.slots):
        assert not array.flags.writeable
        assert not array.flags.owndata


def test_only_a_plan_is_a_trace(tmp_path):
    write_snapshot(tmp_path / "a.arrow", snapshot())
    with pytest.raises(SchemaMismatch):
        open_trace(tmp_path / "a.arrow")


def test_a_file_is_a_trace_where_rows_are_left_to_be_derived(tmp_path):
    write_snapshot(tmp_path / "a.arrow", snapshot())
    write_plan(tmp_path / "b.arrow", plan())
    write_trace(tmp_path / "c.arrow", recorded_steps())
    assert isinstance(read_file_or_trace(tmp_path / "a.arrow"), Snapshot)
    assert isinstance(read_file_or_trace(tmp_path / "b.arrow"), PlanDump)
    assert isinstance(read_file_or_trace(tmp_path / "c.arrow"), FileTrace)


def test_a_fault_past_the_first_batch_ends_the_walk_with_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_writer, "MAX_BATCH_STEPS", 2)
    steps = [RecordedStep(step=step) for step in (1, 2, 3, 2)]
    walk = open_trace(write_trace(tmp_path / "a.arrow", steps)).steps()
    assert [next(walk).step, next(walk).step] == [1, 2]
    with pytest.raises(ValuesInvalid) as caught:
        list(walk)
    assert (caught.value.column, caught.value.row) == ("step", 3)


def test_steps_may_not_fall_from_one_batch_to_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_writer, "MAX_BATCH_STEPS", 1)
    steps = [RecordedStep(step=2), RecordedStep(step=1)]
    with pytest.raises(ValuesInvalid) as caught:
        list(open_trace(write_trace(tmp_path / "a.arrow", steps)).steps())
    assert (caught.value.column, caught.value.row) == ("step", 1)


def test_a_flipped_bit_is_found_as_its_batch_is_walked(tmp_path):
    path = tmp_path / "a.arrow"
    write_trace(path, recorded_steps())
    content = bytearray(path.read_bytes())
    content[content.index(int64(13, 21, 22).tobytes())] ^= 1
    path.write_bytes(content)
    trace = open_trace(path)
    with pytest.raises(FileCorrupt) as caught:
        list(trace.steps())
    assert caught.value.column == "input_ids"


def test_the_batch_is_checked_as_the_file_is_opened(tmp_path):
    lists = pa.array([[1], [1, 2]], pa.list_(pa.int64()))
    path = write_by_hand(tmp_path / "a.arrow", "plan", trace_columns(prefix_lens=lists))
    with pytest.raises(ValuesInvalid) as caught:
        open_trace(path)
    assert (caught.value.column, caught.value.row) == ("prefix_lens", 1)


def test_too_many_rows_are_refused(tmp_path, monkeypatch):
    path = write_trace(tmp_path / "a.arrow", recorded_steps())
    monkeypatch.setattr(rows, "MAX_OBJECT_ROWS", 3)
    with pytest.raises(LimitExceeded):
        open_trace(path)
