"""What every file must pass before its kind is even asked for."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kvaudit.errors import (
    FileCorrupt,
    FormatVersionUnsupported,
    LimitExceeded,
    NotArrow,
    SchemaMismatch,
)
from kvaudit.formats import arrow_file
from kvaudit.formats.arrow_file import open_arrow
from kvaudit.formats.reader import read_file
from kvaudit.formats.schema import FileKind
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.arrow_files import (
    sequences,
    sequences_columns,
    snapshot,
    snapshot_columns,
    write_by_hand,
)


def rewritten(path, *, schema_metadata=None, batch_metadata=None, drop=()):
    """Write a file's batches again with some of its metadata changed or dropped."""
    reader = pa.ipc.open_file(pa.py_buffer(path.read_bytes()))
    metadata = {**reader.schema.metadata, **(schema_metadata or {})}
    schema = reader.schema.with_metadata({k: v for k, v in metadata.items() if k not in drop})
    with pa.ipc.new_file(str(path), schema) as writer:
        for batch_idx in range(reader.num_record_batches):
            batch, custom = reader.get_batch_with_custom_metadata(batch_idx)
            custom = dict(custom) if batch_metadata is None else batch_metadata
            plain = pa.record_batch(batch.columns, schema=schema)
            writer.write_batch(plain, custom_metadata=custom or None)
    return path


def test_a_file_is_opened_with_its_kind_and_metadata(tmp_path):
    write_snapshot(tmp_path / "a.arrow", snapshot(5, metadata={"note": "x"}), batch_rows=2)
    file = open_arrow(str(tmp_path / "a.arrow"))
    assert file.kind is FileKind.SNAPSHOT
    assert file.num_rows == 5
    assert file.layout.batch_rows == (2, 2, 1)
    assert file.metadata["note"] == "x"
    assert not {"kind", "format", "digests"} & file.metadata.keys()
    assert file.checksummed


def test_a_stream_is_not_a_file(tmp_path):
    with pa.ipc.new_stream(str(tmp_path / "a"), pa.schema([("slot", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch({"slot": pa.array([1])}))
    with pytest.raises(NotArrow):
        open_arrow(str(tmp_path / "a"))


@pytest.mark.parametrize("version", ["2", "0", "", "1.0"])
def test_another_format_version_is_refused(tmp_path, version):
    path = write_by_hand(
        tmp_path / "a.arrow", "snapshot", snapshot_columns(), metadata={"kvaudit.format": version}
    )
    with pytest.raises(FormatVersionUnsupported) as caught:
        open_arrow(path)
    assert caught.value.path == path
    assert caught.value.hint


@pytest.mark.parametrize("kind", [None, "ledger", "Snapshot", ""])
def test_a_file_of_no_kind_or_an_unknown_one_is_refused(tmp_path, kind):
    path = write_by_hand(tmp_path / "a.arrow", kind, snapshot_columns())
    with pytest.raises(SchemaMismatch) as caught:
        open_arrow(path)
    assert caught.value.path == path


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "a.arrow"
    schema = pa.schema(
        [("slot", pa.int64()), ("slot", pa.int64())],
        metadata={"kvaudit.kind": "snapshot", "kvaudit.format": "1", "kvaudit.page_size": "1"},
    )
    with pa.ipc.new_file(str(path), schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([1]), pa.array([2])], schema=schema))
    with pytest.raises(SchemaMismatch) as caught:
        open_arrow(str(path))
    assert caught.value.column == "slot"


def test_metadata_that_is_not_utf_8_is_not_arrow(tmp_path):
    path = tmp_path / "a.arrow"
    schema = pa.schema([("slot", pa.int64())], metadata={b"kvaudit.kind": b"\xff"})
    with pa.ipc.new_file(str(path), schema):
        pass
    with pytest.raises(NotArrow):
        open_arrow(str(path))


def test_two_schemas_that_differ_are_refused(tmp_path):
    path = tmp_path / "a.arrow"
    write_by_hand(path, "snapshot", snapshot_columns())
    content = bytearray(path.read_bytes())
    content[content.index(b"slot")] ^= 1
    path.write_bytes(content)
    with pytest.raises(NotArrow, match="schemas differ"):
        open_arrow(str(path))


def test_too_many_columns_are_refused(tmp_path, monkeypatch):
    path = write_by_hand(tmp_path / "a.arrow", "sequences", sequences_columns())
    monkeypatch.setattr(arrow_file, "MAX_COLUMNS", 2)
    with pytest.raises(LimitExceeded, match="3 columns"):
        open_arrow(path)


DIGESTS = b"kvaudit.digests"


@pytest.mark.parametrize(
    "change",
    [
        {"drop": (DIGESTS,)},
        {"batch_metadata": {}},
        {"batch_metadata": {"kvaudit.digests": "{}"}},
        {"batch_metadata": {"kvaudit.digests": "[]"}},
        {"batch_metadata": {"kvaudit.digests": "{"}},
        {"batch_metadata": {"kvaudit.digests": "[" * 100_000}},
        {"batch_metadata": {"kvaudit.digests": '{"slot": 1}'}},
        {"batch_metadata": {"kvaudit.digests": '{"slot": [1]}'}},
        {"schema_metadata": {DIGESTS: b"{}"}},
        {"schema_metadata": {DIGESTS: b"x"}},
        {"schema_metadata": {b"kvaudit.num_slots": b"99"}},
        {"schema_metadata": {b"kvaudit.added": b"1"}},
    ],
)
def test_digests_that_are_dropped_or_malformed_are_a_corrupt_file(tmp_path, change):
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot())
    with pytest.raises(FileCorrupt) as caught:
        read_file(rewritten(path, **change))
    assert caught.value.path == str(path)
    assert caught.value.hint


def test_a_batch_that_went_missing_is_a_corrupt_file(tmp_path):
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot(6), batch_rows=2)
    reader = pa.ipc.open_file(pa.py_buffer(path.read_bytes()))
    with pa.ipc.new_file(str(path), reader.schema) as writer:
        for batch_idx in (0, 2):
            batch, custom = reader.get_batch_with_custom_metadata(batch_idx)
            writer.write_batch(batch, custom_metadata=dict(custom))
    with pytest.raises(FileCorrupt):
        read_file(path)


def test_too_few_digests_of_kv_bytes_are_a_corrupt_file(tmp_path):
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot())
    custom = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).get_batch_with_custom_metadata(0)
    digests = json.loads(custom.custom_metadata[DIGESTS])
    digests["kv.k.0"] = []
    with pytest.raises(FileCorrupt) as caught:
        read_file(rewritten(path, batch_metadata={"kvaudit.digests": json.dumps(digests)}))
    assert caught.value.column == "kv.k.0"


def test_a_view_in_a_file_with_digests_is_refused(tmp_path):
    """Digests are not defined for it, so it would be read unproven."""
    path = tmp_path / "a.arrow"
    write_sequences(path, sequences())
    table = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all()
    batch = table.to_batches()[0]
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["request_id"] = columns["request_id"].dictionary_encode()
    from kvaudit.formats.digests import encode_digests, schema_digest

    bare = pa.schema([(name, array.type) for name, array in columns.items()])
    metadata = {"kvaudit.kind": "sequences", "kvaudit.format": "1"}
    own = encode_digests({"schema": schema_digest(bare, metadata), "rows": 2})
    schema = bare.with_metadata({**metadata, "kvaudit.digests": own})
    with pa.ipc.new_file(str(path), schema) as writer:
        again = pa.record_batch(list(columns.values()), schema=schema)
        writer.write_batch(again, custom_metadata={"kvaudit.digests": "{}"})
    with pytest.raises(SchemaMismatch) as caught:
        read_file(path)
    assert caught.value.column == "request_id"


def test_a_file_rewritten_by_another_tool_is_read_as_one_without_digests(tmp_path):
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot())
    rewritten(path, batch_metadata={}, drop=(DIGESTS,))
    assert not read_file(path).checksummed


def test_opening_a_file_takes_no_memory_for_its_kv_bytes(tmp_path):
    """256 MiB in 64 columns."""
    import tracemalloc

    import numpy as np

    from kvaudit.core.kv_column import ArrayKvColumn

    def column(layer):
        name = f"kv.k.{layer}"
        data = np.zeros((1 << 12, 1 << 10), dtype=np.uint8)
        return ArrayKvColumn(name=name, data=data, read_bytes=1 << 10)

    columns = {f"kv.k.{layer}": column(layer) for layer in range(64)}
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot(1 << 12, kv=columns))
    assert path.stat().st_size > 1 << 28
    tracemalloc.start()
    found = read_file(path)
    windows = [window for kv in found.kv.values() for window in kv.windows()]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(windows) == 64
    assert peak < 4 << 20
