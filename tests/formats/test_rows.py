"""Columns of files, and of batches of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.errors import LimitExceeded
from kvaudit.formats import rows
from kvaudit.formats.arrow_file import open_arrow
from kvaudit.formats.columns import ColumnBatch
from kvaudit.formats.rows import IntegerLists, RowLists, RowReader, Rows
from kvaudit.formats.schema import BOOL, INT32, INT64, INT64_LIST, STRING, STRING_LIST
from tests.helpers.arrow_files import write_by_hand

TYPES = {
    "number": INT64,
    "small": INT32,
    "flag": BOOL,
    "text": STRING,
    "numbers": INT64_LIST,
    "texts": STRING_LIST,
}


@pytest.fixture
def reader(tmp_path):
    columns = {
        "number": pa.array([1, 2]),
        "small": pa.array([3, 4], pa.int32()),
        "flag": pa.array([True, False]),
        "text": pa.array(["a", None]),
        "numbers": pa.array([[1, 2], []], INT64_LIST),
        "texts": pa.array([None, ["x", "y"]], STRING_LIST),
        "odd": pa.array([1, 2]),
        "known": pa.array([1, 2]),
    }
    file = open_arrow(write_by_hand(tmp_path / "a.arrow", "plan", columns))
    return RowReader(file, TYPES, {"absent": STRING}, nullable={"text", "texts"}, unread={"known"})


def test_values_come_by_name(reader):
    np.testing.assert_array_equal(reader.integers("number", np.int64), [1, 2])
    assert reader.integers("small", np.int32).dtype == np.int32
    np.testing.assert_array_equal(reader.flags("flag"), [True, False])
    assert reader.optional_texts("text") == ["a", None]
    assert reader.integer_lists("numbers").offsets.tolist() == [0, 2, 2]
    assert reader.integer_lists("numbers").values.tolist() == [1, 2]
    assert reader.text_lists("texts") == [None, ["x", "y"]]


@pytest.mark.parametrize("cuts", [(0, 0, 2), (0, 1, 1, 2), (0, 2, 2), (0, 0, 0)])
def test_batches_without_rows_change_nothing(tmp_path, cuts):
    lists = pa.array([[1, 2], [3]], INT64_LIST)
    schema = pa.schema(
        [("numbers", INT64_LIST)], metadata={"kvaudit.kind": "plan", "kvaudit.format": "1"}
    )
    path = str(tmp_path / "a.arrow")
    with pa.ipc.new_file(path, schema) as writer:
        for first, last in pairwise(cuts):
            rows_of_batch = lists.slice(first, last - first)
            writer.write_batch(pa.record_batch([rows_of_batch], schema=schema))
    found = RowReader(open_arrow(path), {"numbers": INT64_LIST}, {}).integer_lists("numbers")
    assert found.offsets.tolist() == [0, 2, 3][: cuts[-1] + 1]
    assert found.values.tolist() == [1, 2, 3][: found.offsets[-1]]


def test_an_absent_column_is_none_in_every_row(reader):
    assert not reader.has("absent")
    assert reader.optional_texts("absent") == [None, None]
    assert reader.text_lists("absent") == [None, None]


def test_what_is_null_or_absent_reads_as_empty(tmp_path):
    columns = {
        "small": pa.array([None, 4], pa.int32()),
        "flag": pa.array([None, True]),
        "numbers": pa.array([None, [1, 2]], INT64_LIST),
    }
    types = {name: TYPES[name] for name in columns}
    file = open_arrow(write_by_hand(tmp_path / "a.arrow", "plan", columns))
    found = RowReader(file, types, {"absent": INT64_LIST}, nullable=types)
    for name in columns:
        assert found.is_given(name).tolist() == [False, True]
    assert found.is_given("absent").tolist() == [False, False]
    assert found.integers("small", np.int32)[1] == 4
    assert found.flags("flag").tolist() == [False, True]
    assert found.integer_lists("numbers").offsets.tolist() == [0, 0, 2]
    assert found.integer_lists("absent").offsets.tolist() == [0, 0, 0]
    assert found.integer_lists("absent").values.tolist() == []


def test_lists_are_cut_into_rows():
    column = IntegerLists(offsets=np.array([0, 2, 2, 3]), values=np.array([7, 8, 9]))
    found = RowLists({"a": column})
    assert [found.row("a", row).tolist() for row in range(3)] == [[7, 8], [], [9]]
    assert [found.is_empty("a", row) for row in range(3)] == [False, True, False]


def test_rows_of_a_later_batch_are_named_by_their_place_in_the_file():
    batch = ColumnBatch(array=pa.array([5, 6]), digests=None)
    found = Rows("a.arrow", num_rows=2, batches={"number": [batch]}, first_row=40)
    np.testing.assert_array_equal(found.integers("number", np.int64), [5, 6])
    assert found.invalid("bad", column="number", row=1).row == 41
    assert found.invalid("bad", column="number").row is None


def test_only_columns_that_nobody_knows_are_noted(reader):
    assert reader.notes == ["columns not of the format: odd"]


def test_an_error_names_the_file(reader):
    error = reader.invalid("bad", column="number", row=1)
    assert str(error).endswith("a.arrow, column number, row 1: bad")


def test_too_many_rows_are_refused(tmp_path, monkeypatch):
    file = open_arrow(write_by_hand(tmp_path / "a.arrow", "plan", {"number": pa.array([1, 2])}))
    monkeypatch.setattr(rows, "MAX_OBJECT_ROWS", 1)
    with pytest.raises(LimitExceeded):
        RowReader(file, {"number": INT64}, {})
