"""The digests are those of FORMAT.md, worked out here from the bytes alone."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from kvaudit.formats import digests
from kvaudit.formats.digests import CHUNK_BYTES, column_digests, digest, has_digest, schema_digest
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.kernels import row_threads
from tests.helpers.arrow_files import snapshot

INT64_LIST = pa.list_(pa.int64())


def by_hand(*streams: bytes) -> list[str]:
    """One chunk a stream; an empty stream has none."""
    return [f"{xxhash.xxh3_64_intdigest(stream):016x}" for stream in streams if stream]


def words(*values: int) -> bytes:
    return np.array(values, dtype="<i8").tobytes()


def test_a_digest_is_xxh3_64_with_seed_0():
    assert digest(b"") == "2d06800538d394c2"
    assert digest(b"kvaudit") == f"{xxhash.xxh3_64_intdigest(b'kvaudit'):016x}"


@pytest.mark.parametrize(
    ("array", "streams"),
    [
        (pa.array([1, -2], pa.int64()), [words(1, -2)]),
        (pa.array([1, 2], pa.int32()), [b"\1\0\0\0\2\0\0\0"]),
        (pa.array([True, False, True]), [b"\1\0\1"]),
        (pa.array([True, None, False]), [b"\1\0\1", b"\1\0\0"]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), [b"abcd"]),
        (pa.array([[1, 2, 3, 4]], pa.list_(pa.int64(), 4)), [words(1, 2, 3, 4)]),
        (pa.array(["a", "", "bcd"]), [words(0, 1, 1, 4), b"abcd"]),
        (pa.array(["a", "", "bcd"], pa.large_string()), [words(0, 1, 1, 4), b"abcd"]),
        (pa.array(["a", None]), [b"\1\0", words(0, 1, 1), b"a"]),
        (pa.array([[1], [], [2, 3]], INT64_LIST), [words(0, 1, 1, 3), words(1, 2, 3)]),
        (
            pa.array([["x"], None], pa.list_(pa.string())),
            [b"\1\0", words(0, 1, 1), words(0, 1), b"x"],
        ),
        (pa.array([], pa.int64()), []),
        (pa.array([], INT64_LIST), [words(0)]),
    ],
    ids=str,
)
def test_streams_are_those_of_the_format(array, streams):
    assert has_digest(array.type)
    assert column_digests(array) == by_hand(*streams)


@pytest.mark.parametrize(
    "values", [list(range(20)), ["abc"] * 20, [[1, 2]] * 20, [[1, 2, 3, 4]] * 20, [b"xy"] * 20]
)
def test_a_slice_has_the_digests_of_its_own_rows(values):
    types = {int: pa.int64(), str: pa.string(), bytes: pa.binary(2)}
    arrow_type = types.get(type(values[0]))
    if arrow_type is None:
        arrow_type = pa.list_(pa.int64(), 4) if len(values[0]) == 4 else INT64_LIST
    whole = pa.array(values, arrow_type)
    assert column_digests(whole.slice(3, 9)) == column_digests(pa.array(values[3:12], arrow_type))


def test_chunks_are_of_4_mib_and_the_last_is_shorter():
    content = np.random.default_rng(0).integers(0, 256, CHUNK_BYTES + 5, dtype=np.uint8)
    array = pa.Array.from_buffers(pa.binary(1), content.size, [None, pa.py_buffer(content)])
    assert column_digests(array) == by_hand(
        content[:CHUNK_BYTES].tobytes(), content[CHUNK_BYTES:].tobytes()
    )


@pytest.mark.parametrize(
    "arrow_type", [pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.float64()]
)
def test_other_types_have_no_digest(arrow_type):
    assert not has_digest(arrow_type)
    with pytest.raises(TypeError):
        column_digests(pa.array([], arrow_type))


def test_the_schema_digest_is_that_of_its_text():
    schema = pa.schema(
        [
            pa.field("slot", pa.int64()),
            pa.field("kv.k.0", pa.binary(4), metadata={"b": "é", "a": "1"}),
        ]
    )
    text = (
        '[[["slot","int64",[]],["kv.k.0","fixed_size_binary[4]",[["a","1"],["b","\\u00e9"]]]],'
        '[["x","y"]]]'
    )
    metadata = {"x": "y", "kvaudit.digests": "left out"}
    assert schema_digest(schema, metadata) == digest(text.encode())


def test_a_written_file_carries_them(tmp_path):
    wanted = snapshot(5, 8)
    write_snapshot(tmp_path / "a.arrow", wanted, batch_rows=3)
    reader = pa.ipc.open_file(tmp_path / "a.arrow")
    assert json.loads(reader.schema.metadata[b"kvaudit.digests"])["rows"] == 5
    for batch_idx, rows in enumerate((slice(0, 3), slice(3, 5))):
        custom = reader.get_batch_with_custom_metadata(batch_idx).custom_metadata
        found = json.loads(custom[b"kvaudit.digests"])
        assert found["slot"] == by_hand(wanted.slots[rows].tobytes())
        assert found["canary.k.tail"] == by_hand(wanted.canary["k.tail"].values[rows].tobytes())
        assert found["kv.v.0"] == by_hand(wanted.kv["kv.v.0"].data[rows].tobytes())


def test_hashing_runs_beside_python():
    """A backend checks windows in worker threads, so the hash must release the GIL."""
    import threading

    content = np.zeros(512 << 20, dtype=np.uint8)
    digests.digest(content[:1].data)
    inside = threading.Event()
    done = threading.Event()

    def hash_all():
        inside.set()
        digests.digest(content.data)
        done.set()

    thread = threading.Thread(target=hash_all)
    thread.start()
    inside.wait()
    turns = 0
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 100


@pytest.mark.parametrize("num_threads", [1, 3])
def test_chunks_have_their_digests_in_order_on_any_number_of_cores(monkeypatch, num_threads):
    monkeypatch.setattr(row_threads, "num_threads", lambda: num_threads)
    monkeypatch.setattr(digests, "CHUNK_BYTES", 16)
    content = np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8)
    expected = [digest(content[first : first + 16].data) for first in range(0, 1000, 16)]
    assert digests.chunk_digests(content) == expected
    assert digests.chunk_digests(content[:0]) == []
