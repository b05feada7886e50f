"""Table files: the rows as they were, and what makes no table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.core.layer0_table import TableSource
from kvaudit.errors import FileCorrupt, SchemaMismatch, ValuesInvalid
from kvaudit.formats.dataset import open_dataset
from kvaudit.formats.reader import read_file, read_with_notes
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.formats.table_writer import write_table
from tests.helpers.arrow_files import KEY, snapshot, write_by_hand
from tests.helpers.layer0_tables import TABLE_METADATA, layer0_table, table_columns

PLAIN = ("dtype", "num_heads", "head_dim", "v_head_dim", "model", "source", "note")
ARRAYS = ("tokens", "k0", "v0", "rows_seen", "rows_agreeing")


def read_by_hand(tmp_path, metadata=None, **columns):
    keys = TABLE_METADATA | {f"kvaudit.{name}": text for name, text in (metadata or {}).items()}
    keys = {key: text for key, text in keys.items() if text is not None}
    path = write_by_hand(tmp_path / "a.arrow", "table", table_columns(**columns), metadata=keys)
    return read_file(path)


def test_a_table_comes_back(tmp_path):
    wanted = layer0_table(key=KEY)
    write_table(tmp_path / "a.arrow", wanted)
    read = read_with_notes(tmp_path / "a.arrow")
    found = read.content
    assert (found.path, found.key) == (str(tmp_path / "a.arrow"), KEY)
    for name in PLAIN:
        assert getattr(found, name) == getattr(wanted, name), name
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
        assert not getattr(found, name).flags.writeable
    assert found.rope.to_json() == wanted.rope.to_json()
    assert (read.input_file.kind, read.input_file.notes) == ("table", [])


@pytest.mark.parametrize("name", ["k0", "v0"])
def test_half_a_table_comes_back(tmp_path, name):
    write_table(tmp_path / "a.arrow", layer0_table(**{name: None}))
    assert getattr(read_file(tmp_path / "a.arrow"), name) is None


def test_what_is_not_given_has_its_default(tmp_path):
    found = read_by_hand(tmp_path)
    assert (found.source, found.rope, found.rows_seen) == (TableSource.LEARNT, None, None)
    assert found.v_head_dim == 4


def test_rows_may_be_spread_over_batches(tmp_path):
    columns = table_columns()
    schema = pa.schema(
        [(name, array.type) for name, array in columns.items()],
        metadata={"kvaudit.kind": "table", "kvaudit.format": "1", **TABLE_METADATA},
    )
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), schema) as writer:
        for row in range(2):
            arrays = [array.slice(row, 1) for array in columns.values()]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
    found = read_file(tmp_path / "a.arrow")
    assert found.tokens.tolist() == [3, 8]
    assert found.k0.tobytes() == bytes(range(32))


@pytest.mark.parametrize("row", [0, 1])
def test_a_changed_byte_is_found(tmp_path, row):
    wanted = layer0_table()
    write_table(tmp_path / "a.arrow", wanted)
    content = bytearray((tmp_path / "a.arrow").read_bytes())
    content[content.index(wanted.v0[row].tobytes()) + 5] ^= 4
    (tmp_path / "a.arrow").write_bytes(content)
    with pytest.raises(FileCorrupt) as caught:
        read_file(tmp_path / "a.arrow")
    assert caught.value.column == "v0"


@pytest.mark.parametrize("key", ["num_heads", "head_dim"])
@pytest.mark.parametrize("text", [None, "0", "-1", "two", "99999999"])
def test_the_heads_must_be_there(tmp_path, key, text):
    with pytest.raises(SchemaMismatch, match=key) as caught:
        read_by_hand(tmp_path, {key: text})
    assert caught.value.hint


@pytest.mark.parametrize("rope", ["", "{}", "[1]", '{"head_dim": 4, "inverse_frequencies": []}'])
def test_a_rope_that_is_none_is_refused(tmp_path, rope):
    with pytest.raises(SchemaMismatch, match="rope") as caught:
        read_by_hand(tmp_path, {"rope": rope})
    assert caught.value.path == str(tmp_path / "a.arrow")


def test_a_source_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(SchemaMismatch, match="source"):
        read_by_hand(tmp_path, {"source": "hearsay"})


@pytest.mark.parametrize(
    "change",
    [
        {"k0": None, "v0": None},
        {"token": pa.array([8, 3])},
        {"token": pa.array([-3, 8])},
        {"v0": pa.array([bytes(6), bytes(6)], pa.binary(6))},
        {"token": pa.array([3, None])},
        {"k0": pa.array([bytes(16), None], pa.binary(16))},
    ],
    ids=str,
)
def test_values_that_make_no_table_are_refused(tmp_path, change):
    with pytest.raises(ValuesInvalid) as caught:
        read_by_hand(tmp_path, **change)
    assert caught.value.path == str(tmp_path / "a.arrow")


@pytest.mark.parametrize("dtype", [None, "int4"])
def test_a_type_that_is_not_known_is_refused(tmp_path, dtype):
    with pytest.raises(ValuesInvalid):
        read_by_hand(tmp_path, {"dtype": dtype})


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("token", None),
        ("token", pa.array([3, 8], pa.int32())),
        ("k0", pa.array([b"a", b"b"])),
        ("v0", pa.array([b"", b""], pa.binary(0))),
        ("rows_seen", pa.array([1, 2], pa.int32())),
    ],
    ids=str,
)
def test_columns_of_another_type_are_refused(tmp_path, name, array):
    with pytest.raises(SchemaMismatch) as caught:
        read_by_hand(tmp_path, **{name: array})
    assert caught.value.column == name


def test_a_table_beside_a_dump_is_no_part_of_it(tmp_path):
    write_snapshot(tmp_path / "a.snapshot.arrow", snapshot())
    write_table(tmp_path / "a.table.arrow", layer0_table())
    dataset = open_dataset([tmp_path])
    assert len(dataset.pools) == 1
    [file] = [file for file in dataset.files if file.kind == "table"]
    assert any("--layer0" in note for note in file.notes)
