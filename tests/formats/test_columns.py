"""Mapped columns: windows, the digests under them, and no copy."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.errors import FileCorrupt, FileUnreadable
from kvaudit.formats import columns, digests
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.arrow_files import snapshot

CHUNK = 1024


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 1 KiB in writer and reader alike."""
    monkeypatch.setattr(digests, "CHUNK_BYTES", CHUNK)
    monkeypatch.setattr(columns, "CHUNK_BYTES", CHUNK)
    monkeypatch.setattr("kvaudit.formats.column_checks.CHUNK_BYTES", CHUNK)


def count_chunks(monkeypatch):
    """How often each chunk's bytes were hashed from its first piece to its last."""
    hashed = Counter()

    class CountingHasher:
        def __init__(self):
            self.content = b""

        def update(self, piece):
            self.content += bytes(piece)

        def hexdigest(self):
            hashed[self.content] += 1
            return digests.digest(self.content)

    monkeypatch.setattr(columns, "new_hasher", CountingHasher)
    return hashed


def written(path, num_rows, row_bytes, batch_rows=None):
    wanted = snapshot(num_rows, row_bytes)
    write_snapshot(path, wanted, batch_rows=batch_rows)
    return wanted.kv["kv.k.0"].data, read_file(path).kv["kv.k.0"]


@pytest.mark.parametrize("row_bytes", [1, 7, 24, 384, 1000, 1024, 1025, 3000])
@pytest.mark.parametrize("batch_rows", [None, 11])
@pytest.mark.usefixtures("small_chunks")
def test_windows_cover_every_row_once_and_begin_in_one_chunk(tmp_path, row_bytes, batch_rows):
    data, column = written(tmp_path / "a.arrow", 40, row_bytes, batch_rows)
    next_row = 0
    for window in column.windows():
        assert window.first_row == next_row
        rows = len(window.data)
        np.testing.assert_array_equal(window.data, data[next_row : next_row + rows])
        first = (next_row % (batch_rows or 40)) * row_bytes
        assert first // CHUNK == (first + (rows - 1) * row_bytes) // CHUNK
        assert not window.data.flags.writeable
        next_row += rows
    assert next_row == 40


@pytest.mark.parametrize("row_bytes", [7, 24, 384, 1024, 3000])
@pytest.mark.usefixtures("small_chunks")
def test_a_walk_hashes_every_chunk_exactly_once(tmp_path, monkeypatch, row_bytes):
    data, column = written(tmp_path / "a.arrow", 50, row_bytes)
    hashed = count_chunks(monkeypatch)
    for window in column.windows():
        window.check()
    flat = data.tobytes()
    chunks = [flat[first : first + CHUNK] for first in range(0, len(flat), CHUNK)]
    assert hashed == Counter(chunks)


@pytest.mark.parametrize("row_bytes", [24, 384, 3000])
@pytest.mark.usefixtures("small_chunks")
def test_a_check_proves_every_byte_of_its_own_window(tmp_path, row_bytes):
    """A row that crosses into the next chunk is proven even if the next window is skipped."""
    path = tmp_path / "a.arrow"
    data, _ = written(path, 50, row_bytes)
    raw = path.read_bytes()
    start = raw.index(data.tobytes())
    for row in range(50):
        for offset in (0, row_bytes - 1):
            damaged = bytearray(raw)
            damaged[start + row * row_bytes + offset] ^= 1
            path.write_bytes(damaged)
            column = read_file(path).kv["kv.k.0"]
            windows = list(column.windows())
            window = next(w for w in reversed(windows) if w.first_row <= row)
            with pytest.raises(FileCorrupt) as caught:
                window.check()
            assert (caught.value.path, caught.value.column) == (str(path), "kv.k.0")
            with pytest.raises(FileCorrupt):
                window.check()


@pytest.mark.usefixtures("small_chunks")
def test_threads_share_the_chunks_of_a_walk(tmp_path, monkeypatch):
    _, column = written(tmp_path / "a.arrow", 500, 384)
    hashed = count_chunks(monkeypatch)
    start = threading.Barrier(2)

    def check_all(windows):
        start.wait()
        for window in windows:
            window.check()

    windows = list(column.windows())
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(check_all, windows[part::2]) for part in range(2)]:
            done.result()
    assert hashed.total() == -(-500 * 384 // CHUNK)


@pytest.mark.parametrize("row_bytes", [7, 24, 384, 1024, 3000])
@pytest.mark.usefixtures("small_chunks")
def test_a_walk_of_parts_leaves_each_chunk_to_the_window_that_begins_in_it(
    tmp_path, monkeypatch, row_bytes
):
    _, column = written(tmp_path / "a.arrow", 50, row_bytes)
    hashed = count_chunks(monkeypatch)
    windows = list(column.windows())
    for number, window in enumerate(windows):
        before = hashed.total()
        list(window.parts(next_is_walked=number + 1 < len(windows)))
        assert hashed.total() == before + 1 or row_bytes > CHUNK
    assert hashed.total() == -(-50 * row_bytes // CHUNK)
    assert set(hashed.values()) == {1}


@pytest.mark.parametrize("row_bytes", [7, 24, 384, 1024, 3000])
@pytest.mark.usefixtures("small_chunks")
def test_parts_hold_every_row_once_and_are_hashed_before_they_are_handed_out(
    tmp_path, monkeypatch, row_bytes
):
    monkeypatch.setattr(columns, "PIECE_BYTES", 256)
    _, column = written(tmp_path / "a.arrow", 50, row_bytes)
    hashed_to = 0

    class WatchedHasher:
        def __init__(self):
            self.hasher = digests.new_hasher()

        def update(self, piece):
            nonlocal hashed_to
            assert len(piece) <= 256
            hashed_to += len(piece)
            self.hasher.update(piece)

        def hexdigest(self):
            return self.hasher.hexdigest()

    monkeypatch.setattr(columns, "new_hasher", WatchedHasher)
    rows = []
    for window in column.windows():
        for part in window.parts():
            rows += range(window.first_row + part.start, window.first_row + part.stop)
            assert rows[-1] * row_bytes < hashed_to
            assert len(rows) * row_bytes <= hashed_to
    assert rows == list(range(50))
    assert hashed_to == 50 * row_bytes


@pytest.mark.usefixtures("small_chunks")
def test_parts_that_are_left_before_their_end_have_proven_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "PIECE_BYTES", 256)
    data, _ = written(tmp_path / "a.arrow", 50, 24)
    raw = bytearray((tmp_path / "a.arrow").read_bytes())
    raw[raw.index(data.tobytes())] ^= 1
    (tmp_path / "a.arrow").write_bytes(raw)
    window = next(read_file(tmp_path / "a.arrow").kv["kv.k.0"].windows())
    parts = window.parts()
    assert next(parts) == slice(0, 10)
    parts.close()
    with pytest.raises(FileCorrupt):
        window.check()


def test_a_file_without_digests_has_nothing_to_check(tmp_path):
    import pyarrow as pa

    from tests.helpers.arrow_files import snapshot_columns, write_by_hand

    columns_by_hand = snapshot_columns(**{"kv.k.0": pa.array([b"ab", b"cd", b"ef"], pa.binary(2))})
    path = write_by_hand(tmp_path / "a.arrow", "snapshot", columns_by_hand)
    windows = list(read_file(path).kv["kv.k.0"].windows())
    windows[0].check()
    assert windows[0].data.tobytes() == b"abcdef"
    assert windows[0].digested.content.tobytes() == b"abcdef"
    assert windows[0].digested.digests.size == 0


@pytest.mark.parametrize("row_bytes", [7, 384, 3000])
@pytest.mark.parametrize("batch_rows", [None, 11])
@pytest.mark.usefixtures("small_chunks")
def test_windows_show_parts_of_bytes_with_the_digests_that_were_written(
    tmp_path, row_bytes, batch_rows
):
    _, column = written(tmp_path / "a.arrow", 40, row_bytes, batch_rows)
    for window in column.windows():
        digested, end = window.digested, window.first_byte + window.data.size
        seen = digested.content[window.first_byte : end]
        np.testing.assert_array_equal(seen, window.data.reshape(-1))
        batch_first = window.first_row // (batch_rows or 40) * (batch_rows or 40)
        assert digested.content.size == min(batch_rows or 40, 40 - batch_first) * row_bytes
        assert digested.chunk_bytes == CHUNK
        expected = digests.chunk_digests(digested.content)
        assert [f"{word:016x}" for word in digested.digests.tolist()] == expected
        for chunk in range(len(expected)):
            digested.prove_chunk(chunk)


@pytest.mark.usefixtures("small_chunks")
def test_a_chunk_that_differs_is_named_when_it_is_proven_by_its_number(tmp_path):
    path = tmp_path / "a.arrow"
    data, _ = written(path, 40, 384)
    raw = bytearray(path.read_bytes())
    raw[raw.index(data.tobytes()) + 5 * CHUNK] ^= 1
    path.write_bytes(raw)
    digested = next(read_file(path).kv["kv.k.0"].windows()).digested
    digested.prove_chunk(4)
    with pytest.raises(FileCorrupt) as caught:
        digested.prove_chunk(5)
    assert (caught.value.path, caught.value.column) == (str(path), "kv.k.0")


@pytest.mark.parametrize("text", ["", "0", "-" + "0" * 15, "0" * 17, "G" * 16, "A" * 16, "é" * 8])
def test_a_digest_that_is_no_digest_differs_from_every_chunk(tmp_path, text):
    _, column = written(tmp_path / "a.arrow", 40, 24)
    (batch,) = column.batches
    spoilt = replace(column, batches=[replace(batch, digests=[text])])
    with pytest.raises(FileCorrupt):
        next(spoilt.windows())


@pytest.mark.parametrize("bounds", [(0, 40), (0, 0), (3, 9), (9, 33), (39, 40)])
@pytest.mark.parametrize("batch_rows", [None, 11])
def test_read_rows_crosses_batches(tmp_path, bounds, batch_rows):
    data, column = written(tmp_path / "a.arrow", 40, 24, batch_rows)
    rows = column.read_rows(*bounds)
    np.testing.assert_array_equal(rows, data[slice(*bounds)])
    assert not rows.flags.writeable


def test_a_column_of_one_batch_is_a_view_of_the_map(tmp_path):
    _, column = written(tmp_path / "a.arrow", 40, 24)
    found = read_file(tmp_path / "a.arrow")
    start = found.kv["kv.k.0"].source.buffer.address
    end = start + found.kv["kv.k.0"].source.buffer.size
    arrays = [
        found.slots,
        found.canary["k.tail"].read(),
        found.kv["kv.k.0"].read_rows(0, 40),
        next(found.kv["kv.v.0"].windows()).data,
    ]
    for array in arrays:
        assert start <= array.ctypes.data < end
    assert column.is_resident


def test_a_flipped_record_is_found_when_the_column_is_read(tmp_path):
    path = tmp_path / "a.arrow"
    wanted = snapshot(9)
    write_snapshot(path, wanted)
    raw = bytearray(path.read_bytes())
    raw[raw.index(wanted.canary["k.tail"].values.tobytes()) + 40] ^= 16
    path.write_bytes(raw)
    found = read_file(path)
    with pytest.raises(FileCorrupt) as caught:
        found.canary["k.tail"].read()
    assert caught.value.column == "canary.k.tail"
    next(found.kv["kv.k.0"].windows()).check()


def test_a_file_cut_short_while_it_is_open_is_an_error_and_no_crash(tmp_path):
    path = tmp_path / "a.arrow"
    _, column = written(path, 4000, 1024)
    window = next(column.windows())
    with path.open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(FileUnreadable, match="shrank"):
        window.check()
    with pytest.raises(FileUnreadable):
        next(column.windows())
    with pytest.raises(FileUnreadable):
        column.read_rows(0, 1)
