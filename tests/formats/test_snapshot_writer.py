"""What write_snapshot leaves on disk: schema, batches, order of pulls, nothing on failure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.core.kv_column import ArrayColumn
from kvaudit.errors import SchemaMismatch, SnapshotInconsistent, ValuesInvalid
from kvaudit.formats import snapshot_writer
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.arrow_files import kv_column, snapshot


@dataclass
class LazyColumn:
    """A KV column that gathers what it is asked for and remembers the requests."""

    name: str
    num_rows: int
    row_bytes: int
    read_bytes: int
    dtype: str = "float16"
    is_resident: bool = False
    asked: list[tuple[int, int]] = field(default_factory=list)

    def windows(self):
        raise AssertionError("a writer pulls rows, not windows")

    def read_rows(self, first_row, last_row):
        self.asked.append((first_row, last_row))
        rows = np.arange(first_row, last_row, dtype=np.uint8)
        return np.repeat(rows[:, None], self.row_bytes, axis=1)


def test_a_lazy_column_is_pulled_a_batch_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_writer, "BATCH_BYTES", 1000)
    column = LazyColumn("kv.k.0", 9, 200, 200)
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot(9, kv={"kv.k.0": column}))
    # 200 bytes, a slot and a record of 32: 240 a row, so 4 rows fit in 1000.
    assert column.asked == [(0, 4), (4, 8), (8, 9)]
    found = read_file(path).kv["kv.k.0"]
    np.testing.assert_array_equal(found.read_rows(0, 9)[:, 7], np.arange(9))
    assert (found.dtype, len(found.batches), found.is_resident) == ("float16", 3, False)


def test_bytes_in_memory_and_in_one_mapped_batch_are_written_as_one_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_writer, "BATCH_BYTES", 1)
    write_snapshot(tmp_path / "a.arrow", snapshot(9))
    write_snapshot(tmp_path / "b.arrow", read_file(tmp_path / "a.arrow"))
    for name in ("a.arrow", "b.arrow"):
        assert pa.ipc.open_file(tmp_path / name).num_record_batches == 1
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()


def test_a_strided_column_is_written_as_its_values(tmp_path):
    wide = kv_column("kv.k.0", 6, 32).data
    strided = kv_column("kv.k.0", 6, 16)
    object.__setattr__(strided, "data", wide[:, 8:24])
    write_snapshot(tmp_path / "a.arrow", snapshot(6, kv={"kv.k.0": strided}))
    found = read_file(tmp_path / "a.arrow").kv["kv.k.0"]
    np.testing.assert_array_equal(found.read_rows(0, 6), wide[:, 8:24])


def test_digests_in_uint64_are_stored_as_the_same_bits(tmp_path):
    values = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    stamped = {"kv.k.0": ArrayColumn(name="stamped.k.0", values=values)}
    write_snapshot(tmp_path / "a.arrow", snapshot(4, stamped=stamped))
    found = read_file(tmp_path / "a.arrow").stamped["kv.k.0"].read()
    np.testing.assert_array_equal(found.view(np.uint64), values)


def test_the_schema_is_that_of_the_format(tmp_path):
    write_snapshot(tmp_path / "a.arrow", snapshot(4, 24))
    schema = pa.ipc.open_file(tmp_path / "a.arrow").schema
    assert [(column.name, str(column.type)) for column in schema] == [
        ("slot", "int64"),
        ("canary.k.tail", "fixed_size_list<item: int64 not null>[4]"),
        ("kv.k.0", "fixed_size_binary[24]"),
        ("kv.v.0", "fixed_size_binary[24]"),
    ]
    assert schema.field("kv.k.0").metadata == {b"read_bytes": b"24", b"dtype": b"bfloat16"}
    assert schema.metadata[b"kvaudit.kind"] == b"snapshot"
    assert schema.metadata[b"kvaudit.format"] == b"1"
    assert schema.metadata[b"kvaudit.reserved_slots"] == b"0"


def test_a_name_that_no_reader_accepts_is_not_written(tmp_path):
    for family in ("evidence", "canary", "stamped"):
        bad = {"nonsense": ArrayColumn(name="nonsense", values=np.zeros(9, dtype=np.int64))}
        if family == "canary":
            bad = {"nonsense": ArrayColumn(name="", values=np.zeros((9, 4), dtype=np.int64))}
        with pytest.raises(SchemaMismatch):
            write_snapshot(tmp_path / "a.arrow", snapshot(9, **{family: bad}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "values", "row"),
    [
        ("alloc.owner", np.array(["a"] * 8 + [5], dtype=object), 8),
        ("alloc.owner", np.array(["\ud800"] * 9, dtype=object), 0),
        ("swa_slot", np.full(9, 0.5), None),
    ],
)
def test_values_that_are_none_of_their_column_are_refused(tmp_path, name, values, row):
    evidence = {name: ArrayColumn(name=name, values=values)}
    with pytest.raises(ValuesInvalid) as caught:
        write_snapshot(tmp_path / "a.arrow", snapshot(9, evidence=evidence), batch_rows=4)
    assert (caught.value.column, caught.value.row) == (name, row)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [{"metadata": {"a": 5}}, {"window": 0}, {"page_size": 1 << 40}])
def test_metadata_that_no_reader_takes_is_not_written(tmp_path, change):
    with pytest.raises(SchemaMismatch):
        write_snapshot(tmp_path / "a.arrow", snapshot(9, **change))
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_gathers_too_few_rows_leaves_nothing_behind(tmp_path):
    class ShortColumn(LazyColumn):
        def read_rows(self, first_row, last_row):
            return super().read_rows(first_row, last_row)[1:]

    kv = {"kv.k.0": ShortColumn("kv.k.0", 9, 8, 8)}
    with pytest.raises(SnapshotInconsistent) as caught:
        write_snapshot(tmp_path / "a.arrow", snapshot(9, kv=kv))
    assert caught.value.column == "kv.k.0"
    assert list(tmp_path.iterdir()) == []


def test_a_failure_in_the_middle_leaves_the_older_file_as_it_was(tmp_path):
    class FailingColumn(LazyColumn):
        def read_rows(self, first_row, last_row):
            if first_row:
                raise RuntimeError("the engine went away")
            return super().read_rows(first_row, last_row)

    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot(5))
    before = path.read_bytes()
    kv = {"kv.k.0": FailingColumn("kv.k.0", 9, 8, 8)}
    with pytest.raises(RuntimeError, match="went away"):
        write_snapshot(path, snapshot(9, kv=kv), batch_rows=4)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.arrow"]
