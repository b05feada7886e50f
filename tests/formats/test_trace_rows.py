"""What a row of a trace may not be, each refused with its column and row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvaudit.errors import ValuesInvalid
from kvaudit.formats.schema import BATCH_LISTS, WRITE_COLUMNS
from kvaudit.formats.trace_reader import open_trace
from tests.helpers.arrow_files import trace_columns, write_by_hand

LISTS = pa.list_(pa.int64())


def lists(*rows: list[int] | None) -> pa.Array:
    return pa.array(rows, LISTS)


def walked(tmp_path, **columns):
    path = write_by_hand(tmp_path / "a.arrow", "plan", trace_columns(**columns))
    return list(open_trace(path).steps())


EDIT = {
    "table_request_index": lists([1], [2]),
    "table_positions": lists([0], [0]),
    "table_lens": lists([1], [2]),
    "table_slots": lists([4], [5, 6]),
}
FREED = {"freed_request_index": lists([], [1]), "freed_lens": lists([], [3])}


def test_what_is_changed_below_is_legal_as_it_stands(tmp_path):
    steps = walked(tmp_path, **EDIT, **FREED)
    assert [(row, slots.tolist()) for row, _, slots in steps[1].edits] == [(2, [5, 6])]
    assert steps[1].freed.lens.tolist() == [3]


@pytest.mark.parametrize(
    "changes",
    [
        {"request_index": lists([0], [2**20 - 1])},
        {"prefix_lens": lists([2**30], [0])},
        {"step": pa.array([7, 7])},
    ],
)
def test_values_are_left_to_the_launch(tmp_path, changes):
    assert len(walked(tmp_path, **changes)) == 2


@pytest.mark.parametrize(
    ("column", "changes", "row"),
    [
        ("step", {"step": pa.array([8, 7])}, 1),
        ("request_index", {"request_index": lists([-1], [1])}, 0),
        ("request_index", {"request_index": lists([1], [2**20])}, 1),
        ("prefix_lens", {"prefix_lens": lists([0], [-1])}, 1),
        ("extend_seq_lens", {"extend_seq_lens": lists([2**30 + 1], [0])}, 0),
        ("extend_seq_lens", {"extend_seq_lens": lists([1], [1, 1])}, 1),
        (
            "request_index",
            {name: lists([1], [1, 1]) for name in BATCH_LISTS},
            1,
        ),
        ("table_request_index", EDIT | {"table_request_index": lists([1], [0])}, 1),
        ("table_positions", EDIT | {"table_positions": lists([0], [0, 1])}, 1),
        ("table_lens", EDIT | {"table_lens": lists([-1], [2])}, 0),
        ("table_slots", EDIT | {"table_slots": lists([4], [5])}, 1),
        ("table_slots", {"table_slots": lists([4], [])}, 0),
        ("freed_lens", FREED | {"freed_lens": None}, 1),
        ("freed_request_index", FREED | {"freed_request_index": lists([], [0])}, 1),
        ("copy_dst_slots", {"copy_src_slots": lists([], [1]), "copy_dst_slots": lists([], [])}, 1),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(tmp_path, column, changes, row):
    with pytest.raises(ValuesInvalid) as caught:
        walked(tmp_path, **changes)
    assert (caught.value.column, caught.value.row) == (column, row)
    assert caught.value.hint


@pytest.mark.parametrize("name", BATCH_LISTS)
def test_a_part_that_is_null_in_part_is_refused(tmp_path, name):
    whole = trace_columns()[name]
    torn = pa.array([whole[0].as_py(), None], whole.type)
    with pytest.raises(ValuesInvalid) as caught:
        walked(tmp_path, **{name: torn})
    assert (caught.value.column, caught.value.row) == (name, 1)


def test_a_row_whose_parts_are_all_null_is_a_step_of_nothing(tmp_path):
    gone = {
        name: pa.nulls(2, trace_columns()[name].type) for name in (*WRITE_COLUMNS, *BATCH_LISTS)
    }
    steps = walked(tmp_path, **gone)
    assert [(step.write, step.batch, step.verify) for step in steps] == [(None, None, None)] * 2
