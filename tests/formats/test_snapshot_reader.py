"""Snapshot files: all that may be in one comes back; all that may not is refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.core.layout import SlotRanges
from kvaudit.core.snapshot import DumpMoment, PoolKey, Snapshot
from kvaudit.errors import LimitExceeded, SchemaMismatch, SnapshotInconsistent, ValuesInvalid
from kvaudit.formats.reader import read_file, read_with_notes
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.arrow_files import full_snapshot, snapshot, snapshot_columns, write_by_hand

SCALARS = (
    "num_slots",
    "page_size",
    "reserved_slots",
    "key",
    "at",
    "real_kv_hash_mode",
    "stamped_columns",
    "token_offset",
    "position_offset",
    "window",
    "metadata",
)


def assert_same(found: Snapshot, wanted: Snapshot) -> None:
    """Every value of two snapshots, KV bytes through windows whose digests are checked."""
    for name in SCALARS:
        assert getattr(found, name) == getattr(wanted, name), name
    np.testing.assert_array_equal(found.slots, wanted.slots)
    for family in ("canary", "stamped", "digests", "evidence"):
        columns = getattr(found, family)
        assert columns.keys() == getattr(wanted, family).keys()
        for name, column in getattr(wanted, family).items():
            values = columns[name].read()
            np.testing.assert_array_equal(values, column.read())
            assert values.dtype == column.read().dtype
            assert not values.flags.writeable
    assert found.kv.keys() == wanted.kv.keys()
    for name, column in wanted.kv.items():
        assert found.kv[name].row_bytes == column.row_bytes
        assert found.kv[name].read_bytes == column.read_bytes
        assert found.kv[name].dtype == column.dtype
        windows = list(found.kv[name].windows())
        for window in windows:
            window.check()
        data = np.concatenate([window.data for window in windows])
        np.testing.assert_array_equal(data, column.read_rows(0, wanted.num_rows))


@pytest.mark.parametrize("batch_rows", [None, 1, 2, 3, 100])
def test_every_column_and_key_comes_back_whatever_the_batches(tmp_path, batch_rows):
    wanted = full_snapshot()
    path = tmp_path / "a.snapshot.arrow"
    write_snapshot(path, wanted, batch_rows=batch_rows)
    found = read_with_notes(path)
    assert_same(found.content, wanted)
    assert found.content.path == str(path)
    assert found.content.checksummed
    assert found.input_file.notes == []
    assert found.input_file.page_size == 4
    assert found.input_file.key == {
        "instance": "decode-0",
        "group": "target",
        "pool": "main",
        "pool_kind": "SWA",
        "tier": "device",
        "rank": 3,
        "step": 120,
    }


def test_a_million_rows_of_one_byte_come_back(tmp_path):
    wanted = snapshot(1_000_000, 1)
    write_snapshot(tmp_path / "a.arrow", wanted, batch_rows=300_000)
    assert_same(read_file(tmp_path / "a.arrow"), wanted)


def test_a_snapshot_without_rows_comes_back(tmp_path):
    wanted = snapshot(0, 8)
    write_snapshot(tmp_path / "a.arrow", wanted)
    found = read_file(tmp_path / "a.arrow")
    assert found.num_rows == 0
    assert list(found.kv["kv.k.0"].windows()) == []
    assert found.kv["kv.k.0"].read_rows(0, 0).shape == (0, 8)
    assert found.canary["k.tail"].read().shape == (0, 4)


def test_a_file_by_hand_gets_the_defaults_and_a_note(tmp_path):
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", snapshot_columns())
    found = read_with_notes(path)
    content = found.content
    assert (content.num_slots, content.page_size, content.window) == (4, 2, None)
    assert content.reserved_slots == SlotRanges(((0, 0),))
    assert content.at is DumpMoment.UNKNOWN
    assert content.key == PoolKey()
    assert not content.checksummed
    assert found.input_file.notes == ["file not checksummed"]
    assert found.input_file.key == {}


def test_columns_not_of_the_format_are_passed_over_with_a_note(tmp_path):
    columns = snapshot_columns(mine=pa.array([None, 1.5, 2.5]))
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", columns)
    assert "columns not of the format: mine" in read_with_notes(path).input_file.notes


def test_metadata_that_nobody_knows_is_kept(tmp_path):
    metadata = {"kvaudit.engine": "toy", "kvaudit.sequences": "b.arrow", "other": "x"}
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", snapshot_columns(), metadata=metadata)
    assert read_file(path).metadata == {"engine": "toy", "sequences": "b.arrow", "other": "x"}


def test_text_may_be_dictionary_encoded_or_large(tmp_path):
    columns = snapshot_columns(
        **{
            "alloc.owner": pa.array(["a", None, "a"]).dictionary_encode(),
            "alloc.state": pa.array(["live", "free", None], pa.large_string()),
        }
    )
    found = read_file(write_by_hand(tmp_path / "a.arrow", "snapshot", columns))
    assert found.evidence["alloc.owner"].read().tolist() == ["a", None, "a"]
    assert found.evidence["alloc.state"].read().tolist() == ["live", "free", None]


@pytest.mark.parametrize(
    "name",
    [
        "kv.x.0",
        "kv.k.00",
        "kv.k",
        "kv.k.-1",
        "kv.side.",
        "kv.side.a b",
        "canary.k",
        "canary.kv.tail",
        "stamped.q.0",
        "digest.k.1.2",
        "alloc.refs",
    ],
)
def test_a_misspelt_column_is_refused(tmp_path, name):
    path = write_by_hand(
        tmp_path / "a.arrow", "snapshot", snapshot_columns(**{name: pa.array([1, 2, 3])})
    )
    with pytest.raises(SchemaMismatch) as caught:
        read_file(path)
    assert caught.value.column == name
    assert caught.value.path == path
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("slot", pa.array([1, 2, 3], pa.int32())),
        ("slot", pa.array([1, 2, 3], pa.uint64())),
        ("kv.k.0", pa.array([b"ab"] * 3)),
        ("kv.k.0", pa.array([b""] * 3, pa.binary(0))),
        ("kv.k.0", pa.array([b"ab"] * 3, pa.binary(2)).dictionary_encode()),
        ("canary.k.tail", pa.array([[1, 2, 3]] * 3, pa.list_(pa.int64(), 3))),
        ("canary.k.tail", pa.array([[1, 2, 3, 4]] * 3, pa.list_(pa.int64()))),
        ("canary.k.tail", pa.array([[1, 2, 3, 4]] * 3, pa.list_(pa.uint64(), 4))),
        ("stamped.k.0", pa.array([1, 2, 3], pa.uint64())),
        ("digest.k.0", pa.array(["1", "2", "3"])),
        ("alloc.ref", pa.array([1, 2, 3], pa.int64())),
        ("alloc.owner", pa.array([1, 2, 3])),
        ("written_step", pa.array([1.0, 2.0, 3.0])),
    ],
)
def test_a_column_of_another_type_is_refused(tmp_path, name, array):
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", snapshot_columns(**{name: array}))
    with pytest.raises(SchemaMismatch) as caught:
        read_file(path)
    assert (caught.value.path, caught.value.column) == (path, name)


@pytest.mark.parametrize(
    ("name", "array", "row"),
    [
        ("slot", pa.array([1, None, 3]), 1),
        ("stamped.k.0", pa.array([1, 2, None]), 2),
        ("kv.k.0", pa.array([None, b"ab", b"cd"], pa.binary(2)), 0),
        ("canary.k.tail", pa.array([[1, 2, 3, 4], None, [1] * 4], pa.list_(pa.int64(), 4)), 1),
        (
            "canary.k.tail",
            pa.array([[1] * 4, [1] * 4, [1, 2, None, 4]], pa.list_(pa.int64(), 4)),
            2,
        ),
        ("alloc.ref", pa.array([None, 2, 3], pa.int32()), 0),
    ],
)
def test_a_null_is_refused_with_its_row(tmp_path, name, array, row):
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", snapshot_columns(**{name: array}))
    with pytest.raises(ValuesInvalid) as caught:
        read_file(path)
    assert (caught.value.path, caught.value.column, caught.value.row) == (path, name, row)


@pytest.mark.parametrize(
    ("slots", "row"), [([1, 1, 2], 1), ([3, 2, 4], 1), ([-1, 2, 3], 0), ([0, 2, 1], 2)]
)
def test_slots_that_do_not_ascend_from_zero_are_refused(tmp_path, slots, row):
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", {"slot": pa.array(slots)})
    with pytest.raises(ValuesInvalid) as caught:
        read_file(path)
    assert (caught.value.column, caught.value.row, caught.value.path) == ("slot", row, path)


def test_a_slot_past_the_limit_is_refused(tmp_path):
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", {"slot": pa.array([1, 2, 1 << 62])})
    with pytest.raises(LimitExceeded) as caught:
        read_file(path)
    assert (caught.value.column, caught.value.row) == ("slot", 2)


def test_an_unknown_allocator_state_is_refused_with_its_row(tmp_path):
    columns = snapshot_columns(**{"alloc.state": pa.array(["live", "free", "gone"])})
    found = read_file(write_by_hand(tmp_path / "a.arrow", "snapshot", columns))
    with pytest.raises(ValuesInvalid) as caught:
        found.evidence["alloc.state"].read()
    assert (caught.value.column, caught.value.row) == ("alloc.state", 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("page_size", "0"),
        ("page_size", "x"),
        ("page_size", "9" * 19),
        ("num_slots", "-1"),
        ("num_slots", "9" * 4400),
        ("reserved_slots", "3-1"),
        ("reserved_slots", "0-99999999999999999999"),
        ("real_kv_hash_mode", "some"),
        ("stamped_columns", "kv.k.0"),
        ("stamped_columns", '["kv.k.0","kv.k.0"]'),
        ("stamped_columns", '["k.0"]'),
        ("stamped_columns", "[" * 100_000),
        ("token_offset", "1.5"),
        ("window", "0"),
        ("at", "later"),
        ("pool_kind", "full"),
        ("rank", "-1"),
        ("step", "٣"),
    ],
)
def test_metadata_of_another_form_is_refused(tmp_path, key, value):
    path = write_by_hand(
        tmp_path / "a.arrow", "snapshot", snapshot_columns(), metadata={f"kvaudit.{key}": value}
    )
    with pytest.raises(SchemaMismatch) as caught:
        read_file(path)
    assert caught.value.path == path
    assert f"kvaudit.{key}" in caught.value.message


def test_a_missing_page_size_is_refused(tmp_path):
    wanted = pa.schema(
        [("slot", pa.int64())], metadata={"kvaudit.kind": "snapshot", "kvaudit.format": "1"}
    )
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(str(path), wanted) as writer:
        writer.write_batch(pa.record_batch([pa.array([1])], schema=wanted))
    with pytest.raises(SchemaMismatch, match="page_size"):
        read_file(path)


@pytest.mark.parametrize("read_bytes", ["3", "-1", "x", "9" * 30])
def test_read_bytes_past_the_row_are_refused(tmp_path, read_bytes):
    columns = snapshot_columns(**{"kv.k.0": pa.array([b"ab"] * 3, pa.binary(2))})
    path = write_by_hand(
        tmp_path / "a.arrow",
        "snapshot",
        columns,
        field_metadata={"kv.k.0": {"read_bytes": read_bytes}},
    )
    with pytest.raises(SchemaMismatch) as caught:
        read_file(path)
    assert caught.value.column == "kv.k.0"


def test_a_snapshot_without_slots_is_refused(tmp_path):
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", {"stamped.k.0": pa.array([1])})
    with pytest.raises(SchemaMismatch) as caught:
        read_file(path)
    assert caught.value.column == "slot"


def test_num_slots_below_a_slot_is_refused(tmp_path):
    path = write_by_hand(
        tmp_path / "a.arrow", "snapshot", snapshot_columns(), metadata={"kvaudit.num_slots": "3"}
    )
    with pytest.raises(ValuesInvalid) as caught:
        read_file(path)
    assert (caught.value.column, caught.value.row) == ("slot", 2)


def test_a_column_shorter_than_the_slots_is_refused_by_the_writer(tmp_path):
    wanted = snapshot(4)
    torn = {"k.tail": snapshot(3).canary["k.tail"]}
    with pytest.raises(SnapshotInconsistent):
        write_snapshot(tmp_path / "a.arrow", snapshot(4, canary=torn, kv=wanted.kv))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["half", "[]", '{"inverse_frequencies": [1e999], "head_dim": 4}'], ids=str
)
def test_a_rotation_that_is_none_is_refused_by_its_key(tmp_path, text):
    path = tmp_path / "full.snapshot.arrow"
    write_snapshot(path, replace(full_snapshot(), metadata={"rope": text}))
    with pytest.raises(SchemaMismatch, match=r"kvaudit\.rope") as refused:
        read_file(path)
    assert refused.value.path == str(path)
