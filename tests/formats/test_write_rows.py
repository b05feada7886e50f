"""What a write half may not be, each refused with its column and row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats.schema import WRITE_COLUMNS, WRITE_LISTS
from kvaudit.formats.trace_reader import open_trace
from tests.helpers.arrow_files import trace_columns, write_by_hand

LISTS = pa.list_(pa.int64())
NAMES = pa.list_(pa.string())


def lists(*rows: list[int] | None) -> pa.Array:
    return pa.array(rows, LISTS)


def walked(tmp_path, **columns):
    path = write_by_hand(tmp_path / "a.arrow", "plan", trace_columns(**columns))
    return list(open_trace(path).steps())


EXPECTED = {
    "enable_write_input_assert": pa.array([False, True]),
    "expected_input_tokens": lists(None, [12, 13]),
    "expected_input_positions": lists(None, [1, 2]),
}


def test_the_expected_pair_stands_where_the_assert_was_on(tmp_path):
    first, second = walked(tmp_path, **EXPECTED)
    assert (first.write.enable_write_input_assert, first.write.expected_input_tokens) == (
        False,
        None,
    )
    assert second.write.expected_input_tokens.tolist() == [12, 13]
    assert second.write.expected_input_positions.tolist() == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"write_offsets": lists([0, 1], [5, -2])},
        {"write_num_valid_reqs": pa.array([-7, 2**31 - 1], pa.int32())},
        {"out_cache_loc": lists([-(2**63)], [2**63 - 1, 0])},
        {"write_request_ids": pa.array([None, ["a", "b"]], NAMES)},
        {"enable_chain_position_assert": pa.array([-1, 7], pa.int32())},
    ],
)
def test_values_are_left_to_the_launch(tmp_path, changes):
    assert len(walked(tmp_path, **changes)) == 2


@pytest.mark.parametrize(
    ("column", "changes", "row"),
    [
        ("write_offsets", {"write_offsets": lists([0, 1], [0])}, 1),
        ("write_offsets", {"write_offsets": lists([0, 1, 1], [0, 1])}, 0),
        ("positions", {"positions": lists([0], [1])}, 1),
        ("out_cache_loc", {"out_cache_loc": lists([], [5, 6])}, 0),
        ("expected_input_tokens", EXPECTED | {"expected_input_tokens": lists(None, [12])}, 1),
        (
            "expected_input_positions",
            EXPECTED | {"expected_input_positions": lists([0], [1, 2])},
            0,
        ),
        ("expected_input_positions", EXPECTED | {"expected_input_positions": None}, 1),
        (
            "expected_input_tokens",
            EXPECTED | {"enable_write_input_assert": pa.array([False] * 2)},
            1,
        ),
        ("write_request_ids", {"write_request_ids": pa.array([["a"], []], NAMES)}, 1),
        ("input_ids", {"input_ids": lists([None], [1, 2])}, 0),
    ],
)
def test_a_half_that_contradicts_itself_is_refused(tmp_path, column, changes, row):
    with pytest.raises(ValuesInvalid) as caught:
        walked(tmp_path, **changes)
    assert (caught.value.column, caught.value.row) == (column, row)
    assert caught.value.hint


@pytest.mark.parametrize("name", WRITE_COLUMNS)
def test_a_half_that_is_null_in_part_is_refused(tmp_path, name):
    whole = trace_columns()[name]
    torn = pa.array([whole[0].as_py(), None], whole.type)
    with pytest.raises(ValuesInvalid) as caught:
        walked(tmp_path, **{name: torn})
    assert (caught.value.column, caught.value.row) == (name, 1)


@pytest.mark.parametrize("name", WRITE_LISTS)
def test_a_part_without_one_of_its_columns_is_refused(tmp_path, name):
    with pytest.raises(ValuesInvalid) as caught:
        walked(tmp_path, **{name: None})
    assert (caught.value.column, caught.value.row) == (name, 0)


def test_a_column_of_another_type_is_refused(tmp_path):
    with pytest.raises(SchemaMismatch) as caught:
        walked(tmp_path, enable_chain_position_assert=pa.array([True, False]))
    assert caught.value.column == "enable_chain_position_assert"
