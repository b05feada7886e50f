"""State files: the ring as it was, counters by tag."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.constants import LaunchTag
from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats.reader import read_file, read_with_notes
from kvaudit.formats.schema import RING_COLUMNS
from kvaudit.formats.state_writer import write_state
from tests.helpers.arrow_files import KEY, canary_state, state_columns, write_by_hand

VALUES = ("violation_write_index", "ring_capacity", "active_tags", "sweep_passes")
COUNTERS = ("kernel_run_counters", "slot_run_counters")


def read_by_hand(tmp_path, metadata=None, **columns):
    keys = {f"kvaudit.{name}": value for name, value in (metadata or {}).items()}
    path = write_by_hand(tmp_path / "a.arrow", "state", state_columns(**columns), metadata=keys)
    return read_file(path)


def test_a_state_comes_back(tmp_path):
    wanted = canary_state(key=KEY)
    write_state(tmp_path / "a.arrow", wanted)
    read = read_with_notes(tmp_path / "a.arrow")
    found = read.content
    assert (found.path, found.key) == (str(tmp_path / "a.arrow"), KEY)
    np.testing.assert_array_equal(found.ring, wanted.ring)
    assert (found.ring.dtype, found.ring.flags.writeable) == (np.int64, False)
    for name in (*VALUES, *COUNTERS):
        assert getattr(found, name) == getattr(wanted, name), name
    assert (read.input_file.kind, read.input_file.notes) == ("state", [])


def test_counters_that_are_not_given_are_empty(tmp_path):
    found = read_by_hand(tmp_path)
    assert found.ring.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert (found.kernel_run_counters, found.slot_run_counters, found.sweep_passes) == ({}, {}, {})
    assert (found.active_tags, found.tags) == ((), ())


def test_tags_are_ascending_and_each_once(tmp_path):
    tags = '["TAIL_V_FULL","HEAD_K_FULL","TAIL_V_FULL"]'
    counts = '{"TAIL_V_FULL": 1, "HEAD_K_FULL": 0}'
    found = read_by_hand(tmp_path, {"active_tags": tags, "kernel_run_counters": counts})
    assert found.active_tags == (LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_V_FULL)
    assert list(found.kernel_run_counters.items()) == [
        (LaunchTag.HEAD_K_FULL, 0),
        (LaunchTag.TAIL_V_FULL, 1),
    ]


@pytest.mark.parametrize("number", ["-1", "4294967296", "one", ""])
@pytest.mark.parametrize("key", ["violation_write_index", "ring_capacity"])
def test_numbers_of_the_ring_are_those_of_32_bits(tmp_path, key, number):
    with pytest.raises(SchemaMismatch, match=key):
        read_by_hand(tmp_path, {key: number})


def test_a_ring_has_no_more_rows_than_its_index_can_point_at(tmp_path):
    with pytest.raises(SchemaMismatch, match="ring_capacity"):
        read_by_hand(tmp_path, {"ring_capacity": "2147483648"})


def test_violations_past_the_largest_int32_are_read_as_they_were_counted(tmp_path):
    write_state(tmp_path / "a.arrow", canary_state(violation_write_index=(1 << 31) + 3))
    assert read_file(tmp_path / "a.arrow").violation_write_index == (1 << 31) + 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "nonsense",
        '{"HEAD_Q_FULL": 1}',
        '{"HEAD_K_FULL": -1}',
        '{"HEAD_K_FULL": 1.5}',
        '{"HEAD_K_FULL": true}',
        '{"HEAD_K_FULL": "1"}',
        '{"HEAD_K_FULL": 9223372036854775808}',
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize("key", [*COUNTERS, "sweep_passes"])
def test_counters_are_whole_numbers_by_tag(tmp_path, key, text):
    with pytest.raises(SchemaMismatch, match=key) as caught:
        read_by_hand(tmp_path, {key: text})
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "{}", '["HEAD_Q_FULL"]', "[1]"])
def test_active_tags_are_a_list_of_tags(tmp_path, text):
    with pytest.raises(SchemaMismatch, match="active_tags"):
        read_by_hand(tmp_path, {"active_tags": text})


@pytest.mark.parametrize("key", ["violation_write_index", "ring_capacity"])
def test_the_numbers_of_the_ring_must_be_there(tmp_path, key):
    columns = {name: pa.array([1]) for name in RING_COLUMNS}
    schema = pa.schema(
        [(name, pa.int64()) for name in columns],
        metadata={
            "kvaudit.kind": "state",
            "kvaudit.format": "1",
            **({} if key == "ring_capacity" else {"kvaudit.ring_capacity": "8"}),
            **({} if key == "violation_write_index" else {"kvaudit.violation_write_index": "1"}),
        },
    )
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), schema) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    with pytest.raises(SchemaMismatch, match=key) as caught:
        read_file(tmp_path / "a.arrow")
    assert caught.value.hint


def test_a_ring_of_another_length_than_its_counters_say_is_refused(tmp_path):
    with pytest.raises(ValuesInvalid) as caught:
        read_by_hand(tmp_path, {"violation_write_index": "2"})
    assert caught.value.path == str(tmp_path / "a.arrow")


@pytest.mark.parametrize("name", RING_COLUMNS)
def test_every_column_of_the_ring_must_be_there_without_nulls(tmp_path, name):
    with pytest.raises(SchemaMismatch) as caught:
        read_by_hand(tmp_path, **{name: None})
    assert caught.value.column == name
    with pytest.raises(ValuesInvalid) as caught:
        read_by_hand(tmp_path, **{name: pa.array([None], pa.int64())})
    assert (caught.value.column, caught.value.row) == (name, 0)
