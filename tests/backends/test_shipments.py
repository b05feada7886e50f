"""Which bytes travel together, and what proves them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvaudit.backends.shipments import (
    Shipment,
    compare_digests,
    largest_shipment,
    picked_hashes,
    shipments,
)
from kvaudit.core.kv_column import WINDOW_BYTES, ArrayKvColumn
from kvaudit.errors import DeviceFailed, FileCorrupt
from tests.helpers.digested_columns import CHUNK_BYTES, DigestedColumn, digested_column
from tests.helpers.kv_columns import random_column

ROWS_OF_ALL = np.arange(40)


def rows_of(shipment: Shipment, row_bytes: int) -> np.ndarray:
    end = shipment.first_byte + shipment.num_rows * row_bytes
    return shipment.content[shipment.first_byte : end].reshape(shipment.num_rows, row_bytes)


def chunks_needed(column: DigestedColumn, rows: np.ndarray) -> set[tuple[int, int]]:
    """Every chunk with a byte of a window that holds a wanted row, as batch and number."""
    needed = set()
    for window in column.windows():
        if np.isin(np.arange(len(window.data)) + window.first_row, rows).any():
            batch = next(n for n, each in enumerate(column.batches) if each is window.digested)
            first, last = window.first_byte, window.first_byte + window.data.size
            needed.update(
                (batch, chunk) for chunk in range(first // CHUNK_BYTES, -(-last // CHUNK_BYTES))
            )
    return needed


@settings(max_examples=150, deadline=None)
@given(
    row_bytes=st.integers(1, 3000),
    batch_rows=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    more_bytes=st.integers(0, 4000),
    data=st.data(),
)
def test_all_wanted_rows_travel_and_every_chunk_of_their_windows_is_proven(
    row_bytes: int, batch_rows: list[int], more_bytes: int, data: st.DataObject
) -> None:
    num_rows = sum(batch_rows)
    column = digested_column(num_rows=num_rows, row_bytes=row_bytes, batch_rows=batch_rows)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, num_rows - 1)))), dtype=np.int64)
    max_bytes = 2 * (CHUNK_BYTES + row_bytes) + more_bytes
    proven = []
    sent = list(shipments(column, rows, max_bytes=max_bytes))
    for shipment in sent:
        assert shipment.content.size <= max_bytes
        wanted = rows[shipment.first : shipment.last]
        found = rows_of(shipment, row_bytes)[wanted - shipment.first_row]
        np.testing.assert_array_equal(found, column.data[wanted])
        batch = next(n for n, each in enumerate(column.batches) if each is shipment.digested)
        proven += [(batch, chunk) for chunk in shipment.chunks]
        for place, chunk in enumerate(shipment.chunks):
            first, at = chunk * CHUNK_BYTES, place * CHUNK_BYTES
            part = shipment.digested.content[first : first + CHUNK_BYTES]
            np.testing.assert_array_equal(shipment.content[at : at + part.size], part)
            is_whole = part.size == CHUNK_BYTES
            assert (chunk in shipment.device_chunks) == is_whole
    assert [shipment.first for shipment in sent] == [0, *(each.last for each in sent)][: len(sent)]
    assert set(proven) == chunks_needed(column, rows)


def test_windows_travel_together_as_far_as_they_fit() -> None:
    column = digested_column(num_rows=40, row_bytes=256)
    sizes = [each.content.size for each in shipments(column, ROWS_OF_ALL, max_bytes=4096)]
    assert sizes == [4096, 4096, 2048]
    without = digested_column(num_rows=40, row_bytes=256, has_digests=False)
    (sent,) = shipments(without, ROWS_OF_ALL, max_bytes=1 << 20)
    assert (sent.content.size, len(sent.chunks)) == (40 * 256, 0)


def test_only_what_is_shorter_than_a_chunk_is_proven_on_the_host() -> None:
    column = digested_column(num_rows=21, row_bytes=100)
    (sent,) = shipments(column, np.arange(21), max_bytes=1 << 20)
    sent.prove_on_host()
    assert column.proven == [(0, 2)]
    assert list(sent.device_chunks) == [0, 1]


def test_a_window_without_digests_of_its_own_is_checked_by_itself() -> None:
    column = random_column(num_rows=9, row_bytes=16, read_bytes=16, window_rows=4)
    sent = list(shipments(column, np.array([1, 8]), max_bytes=1 << 20))
    assert [(each.first_row, each.num_rows, len(each.device_chunks)) for each in sent] == [
        (0, 4, 0),
        (8, 1, 0),
    ]
    for each in sent:
        each.prove_on_host()
    assert sorted(column.checked) == [0, 8]


def test_strided_rows_travel_one_after_another() -> None:
    wide = np.arange(96, dtype=np.uint8).reshape(4, 24)
    column = ArrayKvColumn(name="kv.k.0", data=wide[:, :16], read_bytes=16)
    (sent,) = shipments(column, np.arange(4), max_bytes=1 << 20)
    np.testing.assert_array_equal(rows_of(sent, 16), wide[:, :16])


@pytest.mark.parametrize("row_bytes", [1, 1000, WINDOW_BYTES - 1, 3 * WINDOW_BYTES])
def test_no_window_in_memory_is_larger_than_the_largest_shipment(row_bytes: int) -> None:
    data = np.lib.stride_tricks.as_strided(
        np.zeros(1, np.uint8), shape=(2 * WINDOW_BYTES // row_bytes + 2, row_bytes), strides=(0, 0)
    )
    column = ArrayKvColumn(name="kv.k.0", data=data, read_bytes=row_bytes)
    largest = max(window.data.size for window in column.windows())
    assert largest <= largest_shipment(column)


def sent_and_digests() -> tuple[DigestedColumn, Shipment, np.ndarray]:
    """The second shipment of the second batch, whose first chunks are the batch's fifth and sixth."""
    column = digested_column(num_rows=60, row_bytes=256, batch_rows=[13, 47])
    sent = list(shipments(column, np.arange(60), max_bytes=4096))[2]
    return column, sent, sent.digested.digests[sent.device_chunks].copy()


def test_digests_that_are_those_written_pass() -> None:
    column, sent, digests = sent_and_digests()
    assert list(sent.device_chunks) == [4, 5, 6, 7]
    compare_digests(sent, digests)
    assert not column.proven


def test_of_chunks_that_differ_the_first_one_is_raised() -> None:
    column, sent, digests = sent_and_digests()
    column.data[34:, 7] ^= 1
    digests[1:] ^= np.uint64(1)
    with pytest.raises(FileCorrupt) as failure:
        compare_digests(sent, digests)
    assert failure.value.column == "kv.k.0 1 5"


def test_a_digest_that_differs_on_the_device_alone_is_the_devices_failure() -> None:
    _, sent, digests = sent_and_digests()
    digests[2] ^= np.uint64(1)
    with pytest.raises(DeviceFailed):
        compare_digests(sent, digests)


@pytest.mark.parametrize("rows", [ROWS_OF_ALL, ROWS_OF_ALL[::3], np.array([0, 17, 39])], ids=len)
def test_copies_of_the_hashes_of_wanted_rows_are_picked(rows: np.ndarray) -> None:
    column = digested_column(num_rows=40, row_bytes=256, batch_rows=[13, 27])
    parts = []
    for sent in shipments(column, rows, max_bytes=2600):
        hashes = np.arange(sent.first_row, sent.first_row + sent.num_rows, dtype=np.uint64)
        parts.append(picked_hashes(sent, hashes, rows))
        hashes[:] = 0
    np.testing.assert_array_equal(np.concatenate(parts), rows)
