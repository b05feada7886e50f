"""Footers and headers are proven before pyarrow sees the file."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from kvaudit.errors import LimitExceeded, NotArrow
from kvaudit.formats import ipc_layout
from kvaudit.formats.ipc_layout import read_layout


def ipc_bytes(*batches, schema=None, compression=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, schema or batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytearray(sink.getvalue().to_pybytes())


def batch_of(*values):
    return pa.record_batch({"slot": pa.array(values, pa.int64())})


def refuse(content, match):
    with pytest.raises(NotArrow, match=match) as caught:
        read_layout(memoryview(bytes(content)), "a.arrow")
    assert caught.value.path == "a.arrow"
    assert caught.value.hint


def test_rows_of_every_batch_are_read():
    content = ipc_bytes(batch_of(1, 2, 3), batch_of(), batch_of(4))
    layout = read_layout(memoryview(bytes(content)), "a.arrow")
    assert layout.batch_rows == (3, 0, 1)
    assert layout.num_dictionaries == 0


def test_dictionaries_are_counted():
    batch = pa.record_batch({"a": pa.array(["x", "y"]).dictionary_encode()})
    assert read_layout(memoryview(bytes(ipc_bytes(batch))), "a.arrow").num_dictionaries == 1


def test_a_file_without_batches_has_none():
    content = ipc_bytes(schema=pa.schema([("slot", pa.int64())]))
    assert read_layout(memoryview(bytes(content)), "a.arrow").batch_rows == ()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_batch_is_refused_with_the_way_to_rewrite_it(compression):
    content = ipc_bytes(batch_of(*[7] * 1000), compression=compression)
    with pytest.raises(NotArrow, match="compressed") as caught:
        read_layout(memoryview(bytes(content)), "a.arrow")
    assert "uncompressed" in caught.value.hint


def test_a_compressed_dictionary_is_refused():
    batch = pa.record_batch({"a": pa.array(["x" * 500] * 3).dictionary_encode()})
    refuse(ipc_bytes(batch, compression="zstd"), "compressed")


@pytest.mark.parametrize("content", [b"", b"ARROW", b"PAR1" * 10, b"\0" * 64])
def test_another_file_is_not_arrow(content):
    refuse(content, "not an Arrow IPC file")


def test_every_truncation_is_refused():
    content = ipc_bytes(batch_of(1, 2, 3))
    for length in range(len(content)):
        with pytest.raises(NotArrow):
            read_layout(memoryview(bytes(content[:length])), "a.arrow")


@pytest.mark.parametrize("footer_bytes", [-1, 0, 1, 7, 1 << 20, 2**31 - 1, -(2**31)])
def test_a_footer_of_another_length_is_refused(footer_bytes):
    content = ipc_bytes(batch_of(1))
    content[-10:-6] = struct.pack("<i", footer_bytes)
    with pytest.raises((NotArrow, LimitExceeded)):
        read_layout(memoryview(bytes(content)), "a.arrow")


def block_position(content, nth=0):
    """Where the footer's nth record batch block lies: found by its known first word."""
    stream = pa.ipc.open_file(pa.py_buffer(bytes(content)))
    footer_start = len(content) - 10 - struct.unpack("<i", content[-10:-6])[0]
    schema_bytes = 8 + len(stream.schema.serialize())
    first_block = struct.pack("<q", schema_bytes)
    return content.index(first_block, footer_start) + 24 * nth


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (0, -8),
        (0, 1 << 40),
        (0, 0),
        (0, 2**63 - 1),
        (1, 0),
        (1, 1 << 30),
        (2, -1),
        (2, 1 << 50),
        (2, 8),
    ],
)
def test_a_block_that_points_elsewhere_is_refused(word, value):
    content = ipc_bytes(batch_of(1, 2, 3))
    position = block_position(content) + 8 * word
    content[position : position + 8] = struct.pack("<q", value)
    with pytest.raises((NotArrow, LimitExceeded)):
        read_layout(memoryview(bytes(content)), "a.arrow")


def test_batches_that_count_the_same_bytes_twice_are_refused():
    content = ipc_bytes(batch_of(*range(500)), batch_of(), batch_of(*range(900)))
    first = block_position(content)
    content[first + 24 : first + 48] = content[first : first + 24]
    refuse(content, "overlap")


def test_columns_that_share_their_bytes_are_refused():
    """Fifty columns over one buffer would expand a file to fifty times its size."""
    names = [f"column{number}" for number in range(50)]
    batch = pa.record_batch({name: pa.array([7] * 64, pa.int64()) for name in names})
    content = ipc_bytes(batch)
    body_bytes = 50 * 64 * 8
    for number in range(50):
        buffer = content.index(struct.pack("<qq", number * 512, 512))
        content[buffer : buffer + 16] = struct.pack("<qq", 0, body_bytes)
    refuse(content, "larger than it is")


def test_too_many_rows_and_batches_are_refused(monkeypatch):
    content = bytes(ipc_bytes(batch_of(1, 2), batch_of(3)))
    monkeypatch.setattr(ipc_layout, "MAX_ROWS", 2)
    with pytest.raises(LimitExceeded, match="3 rows"):
        read_layout(memoryview(content), "a.arrow")
    monkeypatch.setattr(ipc_layout, "MAX_BATCHES", 1)
    with pytest.raises(LimitExceeded, match="2 batches"):
        read_layout(memoryview(content), "a.arrow")


def test_a_header_past_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(ipc_layout, "MAX_HEADER_BYTES", 16)
    with pytest.raises(LimitExceeded, match="header"):
        read_layout(memoryview(bytes(ipc_bytes(batch_of(1)))), "a.arrow")
