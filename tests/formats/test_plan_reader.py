"""Plan files: the verify half of every row, clamps left to the launch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.constants import LaunchTag
from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.reader import read_file, read_with_notes
from kvaudit.formats.schema import TRACE_COLUMNS, VERIFY_COLUMNS, VERIFY_LISTS
from tests.helpers.arrow_files import KEY, plan, plan_columns, write_by_hand


def read_by_hand(tmp_path, **columns):
    return read_file(write_by_hand(tmp_path / "a.arrow", "plan", plan_columns(**columns)))


def test_every_launch_comes_back(tmp_path):
    wanted = plan(key=KEY)
    write_plan(tmp_path / "a.arrow", wanted)
    found = read_file(tmp_path / "a.arrow")
    assert found.key == KEY
    assert len(found.launches) == 2
    for launch, other in zip(found.launches, wanted.launches, strict=True):
        for name in VERIFY_LISTS:
            np.testing.assert_array_equal(getattr(launch.plan, name), getattr(other.plan, name))
        assert (launch.plan.num_valid, launch.plan.enable) == (
            other.plan.num_valid,
            other.plan.enable,
        )
        for name in ("step", "tags", "check_verify_expected_token", "request_ids"):
            assert getattr(launch, name) == getattr(other, name), name


@pytest.mark.parametrize("num_valid", [-5, 0, 2, 1000, -(2**31), 2**31 - 1])
def test_any_num_valid_is_legal(tmp_path, num_valid):
    found = read_by_hand(tmp_path, verify_num_valid=pa.array([num_valid], pa.int32()))
    assert found.launches[0].plan.num_valid == num_valid
    assert len(found.launches[0].plan) == min(max(num_valid, 0), 2)


def test_a_file_that_says_nothing_of_tags_and_requests_leaves_them_open(tmp_path):
    launch = read_by_hand(tmp_path).launches[0]
    assert launch.tags is None
    assert launch.request_ids is None
    assert launch.check_verify_expected_token is True


def test_the_single_tag_is_read_where_tags_are_absent(tmp_path):
    assert read_by_hand(tmp_path, tag=pa.array(["TAIL_V_SWA"])).launches[0].tags == (
        LaunchTag.TAIL_V_SWA,
    )
    assert read_by_hand(tmp_path, tag=pa.array([None], pa.string())).launches[0].tags is None
    both = {"tag": pa.array(["TAIL_V_SWA"]), "tags": pa.array([["HEAD_K_FULL"]])}
    assert read_by_hand(tmp_path, **both).launches[0].tags == (LaunchTag.HEAD_K_FULL,)


def test_tags_are_ascending_and_each_once(tmp_path):
    tags = pa.array([["SWEEP_K_FULL", "HEAD_K_FULL", "SWEEP_K_FULL"]])
    assert read_by_hand(tmp_path, tags=tags).launches[0].tags == (
        LaunchTag.HEAD_K_FULL,
        LaunchTag.SWEEP_K_FULL,
    )


def test_the_write_half_is_passed_over_without_a_note(tmp_path):
    extra = {name: pa.nulls(1, pa.int64()) for name in TRACE_COLUMNS}
    path = write_by_hand(tmp_path / "a.arrow", "plan", plan_columns(**extra))
    assert read_with_notes(path).input_file.notes == ["file not checksummed"]


def test_rows_without_a_verify_half_are_counted_and_noted(tmp_path):
    half = {name: plan_columns()[name] for name in VERIFY_COLUMNS}
    columns = {
        name: pa.array([None, array[0].as_py(), None], array.type) for name, array in half.items()
    }
    columns |= {"step": pa.array([7, 8, 9]), "tags": pa.array([["HEAD_K_FULL"]] * 3)}
    read = read_with_notes(write_by_hand(tmp_path / "a.arrow", "plan", columns))
    assert [launch.step for launch in read.content.launches] == [8]
    assert read.content.num_derived == 2
    assert [note for note in read.input_file.notes if note.startswith("2 rows of a trace")]
    assert read_by_hand(tmp_path).num_derived == 0


@pytest.mark.parametrize("name", VERIFY_COLUMNS)
def test_half_a_verify_half_is_refused(tmp_path, name):
    whole = plan_columns()[name]
    with pytest.raises(ValuesInvalid) as caught:
        read_by_hand(tmp_path, **{name: pa.nulls(1, whole.type)})
    assert (caught.value.column, caught.value.row) == (name, 0)
    assert caught.value.hint


@pytest.mark.parametrize("name", VERIFY_LISTS[1:])
def test_lists_of_different_length_are_refused_with_their_row(tmp_path, name):
    lists = {other: pa.array([[4, 5], [4, 5]], pa.list_(pa.int64())) for other in VERIFY_LISTS}
    lists[name] = pa.array([[1, 2], [1, 2, 3]], pa.list_(pa.int64()))
    twice = {
        "step": pa.array([1, 2]),
        "verify_num_valid": pa.array([2, 2], pa.int32()),
        "enable": pa.array([1, 1], pa.int32()),
        "check_verify_expected_token": pa.array([True, False]),
    }
    with pytest.raises(ValuesInvalid) as caught:
        read_by_hand(tmp_path, **lists, **twice)
    assert (caught.value.column, caught.value.row) == (name, 1)


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("tags", pa.array([["HEAD_K_FULL", "HEAD_Q_FULL"]])),
        ("tag", pa.array(["TAIL"])),
        ("tags", pa.array([["HEAD_K_FULL", None]])),
        ("verify_request_ids", pa.array([["a"]])),
        ("verify_slot_indices", pa.array([None], pa.list_(pa.int64()))),
        ("verify_slot_indices", pa.array([[4, None]], pa.list_(pa.int64()))),
        ("check_verify_expected_token", pa.array([None], pa.bool_())),
        ("enable", pa.array([None], pa.int32())),
    ],
)
def test_values_that_are_not_of_the_format_are_refused(tmp_path, column, array):
    with pytest.raises(ValuesInvalid) as caught:
        read_by_hand(tmp_path, **{column: array})
    assert (caught.value.column, caught.value.row) == (column, 0)


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("step", None),
        ("verify_prev_slot_indices", None),
        ("enable", pa.array([True])),
        ("verify_num_valid", pa.array([1])),
        ("check_verify_expected_token", pa.array([1])),
        ("verify_request_ids", pa.array(["a"])),
    ],
)
def test_a_column_missing_or_of_another_type_is_refused(tmp_path, column, array):
    with pytest.raises(SchemaMismatch) as caught:
        read_by_hand(tmp_path, **{column: array})
    assert caught.value.column == column
