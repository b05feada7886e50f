"""`fold`: the bytes of slots, in any geometry and at any alignment, and their combination."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.kernels.array_forms import frozen
from tests.helpers import hand_oracle
from tests.kernels.implementations import IMPLEMENTATIONS, IN_SIMULATOR, WRAPS
from tests.kernels.launches import UNTOUCHED

pytestmark = [pytest.mark.parametrize("implementation", IMPLEMENTATIONS), WRAPS]

FIFTEEN_UP = np.arange(16, dtype=np.uint8)


def source_hashes(implementation, source, slots, geometry):
    """Source hashes of slots; geometry: page_size, num_bytes_per_token, read_bytes."""
    page_size, num_bytes_per_token, read_bytes = geometry
    hashes = np.full(len(slots), 7, dtype=np.uint64)
    implementation.run(
        "fold",
        source_bytes=source,
        slot_indices=np.array(slots, dtype=np.int64),
        source_hashes=hashes,
        page_size=page_size,
        num_bytes_per_token=num_bytes_per_token,
        read_bytes=read_bytes,
    )
    return [int(value) for value in hashes]


def piece_hashes(implementation, source, slots, pieces):
    """Source hashes of slots in pieces; pieces: their number, stride and bytes."""
    num_pieces, piece_stride, piece_bytes = pieces
    hashes = np.full(len(slots), 7, dtype=np.uint64)
    implementation.run(
        "fold",
        "launch_fold_pieces",
        source_bytes=source,
        slot_indices=np.array(slots, dtype=np.int64),
        source_hashes=hashes,
        num_pieces=num_pieces,
        piece_stride=piece_stride,
        piece_bytes=piece_bytes,
    )
    return [int(value) for value in hashes]


def combined(implementation, sources):
    """real_kv_hash of each slot from the hashes of its sources."""
    real_kv_hashes = np.zeros(len(sources[0]), dtype=np.uint64)
    for hashes in sources:
        implementation.run(
            "fold",
            "launch_combine",
            source_hashes=np.array(hashes, dtype=np.uint64),
            real_kv_hashes=real_kv_hashes,
        )
    return [int(value) for value in real_kv_hashes]


def real_kv_hashes(
    implementation, source, slots, geometry, *, num_valid=(), enable=(), before=None
):
    """Combined hashes of slots after a source, UNTOUCHED where no entry was active.

    before: combined hashes of the sources before it; None: it is the first.
    """
    page_size, num_bytes_per_token, read_bytes = geometry
    hashes = np.full(len(slots), UNTOUCHED, np.uint64)
    if before is not None:
        hashes[:] = before
    implementation.run(
        "fold",
        "launch_fold_source",
        source_bytes=source,
        slot_indices=frozen(np.array(slots, dtype=np.int64)),
        num_valid=frozen(np.array(num_valid, dtype=np.int32)),
        enable=frozen(np.array(enable, dtype=np.int32)),
        real_kv_hashes=hashes,
        page_size=page_size,
        num_bytes_per_token=num_bytes_per_token,
        read_bytes=read_bytes,
        is_first_source=before is None,
    )
    return [int(value) for value in hashes]


def count_written(implementation, offsets, num_valid_reqs, num_tokens):
    """Entries that a write of these requests looks at."""
    num_valid = np.full(1, UNTOUCHED, dtype=np.int32)
    implementation.run(
        "fold",
        "launch_count_written",
        write_offsets=np.array(offsets, dtype=np.int64),
        write_num_valid_reqs=np.array([num_valid_reqs], dtype=np.int32),
        num_valid=num_valid,
        num_tokens=num_tokens,
    )
    return int(num_valid[0])


def oracle_hashes(source, slots, geometry):
    page_size, num_bytes_per_token, read_bytes = geometry
    wanted = []
    for slot in slots:
        data = b""
        if 0 <= slot < source.shape[0] * page_size:
            start = slot % page_size * num_bytes_per_token
            data = source[slot // page_size].tobytes()[start : start + read_bytes]
        wanted.append(hand_oracle.fold(data))
    return wanted


def random_source(num_rows, row_bytes, seed=0):
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)


# By hand


def test_fold_of_zero_bytes_is_zero(implementation):
    assert source_hashes(implementation, np.zeros((2, 32), np.uint8), [0, 1], (1, 32, 32)) == [0, 0]


def test_fold_of_a_slot_outside_the_source_is_zero(implementation):
    source = np.ones((3, 16), dtype=np.uint8)
    slots = [-1, -(2**63), 6, 2**63 - 1, 5]
    hashes = source_hashes(implementation, source, slots, (2, 8, 8))
    assert hashes == [0, 0, 0, 0, hand_oracle.fold(b"\1" * 8)]


def test_fold_of_a_source_without_rows_is_zero(implementation):
    assert source_hashes(implementation, np.zeros((0, 16), np.uint8), [0, 1], (1, 16, 16)) == [0, 0]


def test_fold_of_no_slots_writes_nothing(implementation):
    assert source_hashes(implementation, np.ones((1, 16), np.uint8), [], (1, 16, 16)) == []


def test_fold_of_nothing_read_is_zero(implementation):
    assert source_hashes(implementation, np.ones((1, 16), np.uint8), [0], (1, 16, 0)) == [0]


def test_fold_pads_a_ragged_word_with_zeros(implementation):
    source = np.arange(1, 14, dtype=np.uint8).reshape(1, 13)
    wanted = hand_oracle.fold(bytes(range(1, 14)) + b"\0\0\0")
    assert source_hashes(implementation, source, [0], (1, 13, 13)) == [wanted]


def test_fold_of_a_first_source_starts_at_zero_and_that_of_a_further_one_goes_on(implementation):
    source = FIFTEEN_UP.reshape(1, 16)
    first = real_kv_hashes(implementation, source, [0], (1, 16, 16))
    assert first == [0xD6D75024DFD6C30C]
    second = real_kv_hashes(implementation, source, [0], (1, 16, 16), before=first)
    assert second == [0xCD98CAD44BCDA2EA]


@pytest.mark.parametrize(
    ("num_valid", "enable", "num_active"),
    [
        ((), (), 4),
        ([3], (), 3),
        ([0], (), 0),
        ([-1], [1], 0),
        ([9], [1], 4),
        ([2], [-1], 2),
        ([3], [0], 0),
        ((), [0], 0),
    ],
)
@pytest.mark.parametrize("num_bytes", [16, 48, 24, 21])
def test_fold_of_a_source_leaves_entries_that_are_not_active_untouched(
    implementation, num_bytes, num_valid, enable, num_active
):
    """By each kernel of a device: short slots, pairs, words, bytes."""
    source = random_source(4, num_bytes)
    slots, geometry = [3, 9, 0, 2], (1, num_bytes, num_bytes)
    hashes = [hand_oracle.combined([each]) for each in oracle_hashes(source, slots, geometry)]
    got = real_kv_hashes(
        implementation, source, slots, geometry, num_valid=num_valid, enable=enable
    )
    assert got == hashes[:num_active] + [UNTOUCHED] * (4 - num_active)


@pytest.mark.parametrize(
    ("offsets", "num_valid_reqs", "num_tokens", "wanted"),
    [
        ([0, 3, 5, 9], 3, 20, 9),
        ([0, 3, 5, 9], 2, 20, 5),
        ([0, 3, 5, 9], 7, 20, 9),
        ([4, 5, 9], 0, 20, 0),
        ([4, 5, 9], -3, 20, 0),
        ([0, 9, 5], 2, 20, 9),
        ([0, 3, 9], 2, 6, 6),
        ([0, -3], 1, 6, 0),
        ([0, 2**63 - 1], 1, 6, 6),
        ([0], 1, 6, 0),
        ([0, 3], 1, 0, 0),
    ],
)
def test_the_entries_of_a_write_end_where_its_last_request_does(
    implementation, offsets, num_valid_reqs, num_tokens, wanted
):
    assert count_written(implementation, offsets, num_valid_reqs, num_tokens) == wanted


def test_fold_of_pieces_is_that_of_their_bytes_one_after_the_other(implementation):
    """Two heads of two slots of 16 bytes each, heads outside of slots; one row is both."""
    page = np.arange(64, dtype=np.uint8)
    rows = np.lib.stride_tricks.as_strided(page, (2, 48), (16, 1))
    assert piece_hashes(implementation, rows, [0, 1, 2, -1], (2, 32, 16)) == [
        hand_oracle.fold(bytes([*range(16), *range(32, 48)])),
        hand_oracle.fold(bytes([*range(16, 32), *range(48, 64)])),
        0,
        0,
    ]


@pytest.mark.parametrize("pieces", [(0, 8, 8), (2, 8, 0)])
def test_fold_of_no_piece_and_of_empty_ones_is_zero(implementation, pieces):
    assert piece_hashes(implementation, np.ones((2, 16), np.uint8), [0, 1], pieces) == [0, 0]
    assert piece_hashes(implementation, np.ones((0, 16), np.uint8), [0, 1], (2, 8, 8)) == [0, 0]


# Pins: CASES.md 2


def test_fold_of_sixteen_ascending_bytes_is_the_pinned_hash(implementation):
    hashes = source_hashes(implementation, FIFTEEN_UP.reshape(1, 16), [0], (1, 16, 16))
    assert hashes == [0x447F1B95028CE131]
    assert combined(implementation, [hashes]) == [0xD6D75024DFD6C30C]
    assert combined(implementation, [hashes, hashes]) == [0xCD98CAD44BCDA2EA]


def test_fold_with_the_wrong_page_size_reads_the_permutation_of_case_t29(implementation):
    """Pages of 4 slots of 16 bytes, read as pages of 2: f(s) = 4 * (s // 2) + s % 2."""
    source = random_source(4, 64)
    truth = source_hashes(implementation, source, list(range(16)), (4, 16, 16))
    misread = source_hashes(implementation, source, list(range(8)), (2, 16, 16))
    assert misread == [truth[slot] for slot in (0, 1, 4, 5, 8, 9, 12, 13)]


def test_fold_of_the_first_sixteen_bytes_is_blind_behind_them_as_case_t31(implementation):
    source = random_source(2, 32)
    damaged = source.copy()
    damaged[1, 20] ^= 1
    partial, full = (1, 32, 16), (1, 32, 32)
    assert source_hashes(implementation, source, [1], partial) == source_hashes(
        implementation, damaged, [1], partial
    )
    assert source_hashes(implementation, source, [1], full) != source_hashes(
        implementation, damaged, [1], full
    )


# Differential


@given(
    num_rows=st.integers(1, 5),
    page_size=st.integers(1, 4),
    num_bytes_per_token=st.integers(1, 40),
    offset=st.integers(0, 9),
    gap=st.integers(0, 17),
    data=st.data(),
)
def test_fold_agrees_with_the_hand_oracle_in_any_geometry(
    implementation, num_rows, page_size, num_bytes_per_token, offset, gap, data
):
    read_bytes = data.draw(st.integers(0, num_bytes_per_token))
    slots = data.draw(st.lists(st.integers(-2, num_rows * page_size + 2), max_size=40))
    row_bytes = page_size * num_bytes_per_token
    memory = random_source(1, offset + num_rows * (row_bytes + gap)).ravel()
    source = memory[offset:].reshape(num_rows, row_bytes + gap)[:, :row_bytes]
    geometry = (page_size, num_bytes_per_token, read_bytes)
    assert source_hashes(implementation, source, slots, geometry) == oracle_hashes(
        source, slots, geometry
    )


@pytest.mark.parametrize("read_words", [1, 7, 8, 16, 17, 63, 64, 127, 128, 129, 130])
@pytest.mark.parametrize("num_slots", [1, 31, 63, 65])
def test_fold_agrees_with_the_hand_oracle_around_a_tile(implementation, read_words, num_slots):
    num_slots = min(num_slots, 3) if IN_SIMULATOR else num_slots
    source = random_source(num_slots, 130 * 8)
    geometry = (1, 130 * 8, read_words * 8)
    slots = list(range(num_slots))[::-1]
    assert source_hashes(implementation, source, slots, geometry) == oracle_hashes(
        source, slots, geometry
    )


@given(
    num_pieces=st.integers(1, 5),
    piece_words=st.integers(1, 40),
    gap_words=st.integers(-3, 9),
    step_words=st.integers(0, 12),
    num_rows=st.integers(1, 5),
    first_word=st.integers(0, 1),
    data=st.data(),
)
def test_fold_of_pieces_agrees_with_the_hand_oracle_wherever_they_lie(
    implementation, num_pieces, piece_words, gap_words, step_words, num_rows, first_word, data
):
    """Also where pieces overlap, and rows."""
    stride = max(0, piece_words + gap_words) * 8
    pieces = (num_pieces, stride, piece_words * 8)
    row_bytes = (num_pieces - 1) * stride + piece_words * 8
    memory = random_source(1, (first_word + step_words * num_rows) * 8 + row_bytes).ravel()
    rows = np.lib.stride_tricks.as_strided(
        memory[first_word * 8 :], (num_rows, row_bytes), (step_words * 8, 1)
    )
    slots = data.draw(st.lists(st.integers(-2, num_rows + 1), max_size=10))
    firsts = [piece * stride for piece in range(num_pieces)]
    wanted = [
        hand_oracle.fold(
            b"".join(rows[slot].tobytes()[first : first + piece_words * 8] for first in firsts)
        )
        if 0 <= slot < num_rows
        else 0
        for slot in slots
    ]
    assert piece_hashes(implementation, rows, slots, pieces) == wanted


@given(
    page_size=st.sampled_from([1, 3, 4]),
    read_bytes=st.sampled_from([16, 32, 48]),
    num_valid=st.integers(-1, 12),
    enable=st.integers(-1, 1),
    data=st.data(),
)
def test_fold_of_aligned_sources_one_after_the_other_agrees_with_the_hand_oracle(
    implementation, page_size, read_bytes, num_valid, enable, data
):
    num_bytes_per_token = data.draw(st.sampled_from([read_bytes, 64]))
    slots = data.draw(st.lists(st.integers(-2, 3 * page_size + 2), max_size=10))
    geometry = (page_size, num_bytes_per_token, read_bytes)
    sources = [random_source(3, page_size * num_bytes_per_token, seed) for seed in range(2)]
    hashes = None
    for source in sources:
        hashes = real_kv_hashes(
            implementation,
            source,
            slots,
            geometry,
            num_valid=[num_valid],
            enable=[enable],
            before=hashes,
        )
    num_active = min(max(num_valid, 0), len(slots)) if enable else 0
    wanted = [
        hand_oracle.combined(each)
        for each in zip(
            *(oracle_hashes(source, slots, geometry) for source in sources), strict=True
        )
    ]
    assert hashes == wanted[:num_active] + [UNTOUCHED] * (len(slots) - num_active)


@pytest.mark.parametrize("num_requests", [1, 127, 128, 300])
def test_the_entries_of_many_requests_are_counted_whichever_ends_last(implementation, num_requests):
    offsets = np.random.default_rng(num_requests).integers(0, 1000, num_requests + 1)
    assert count_written(implementation, offsets, num_requests, 5000) == offsets[1:].max()


@given(
    sources=st.lists(
        st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3), min_size=1, max_size=4
    )
)
def test_combine_agrees_with_the_hand_oracle(implementation, sources):
    wanted = [hand_oracle.combined(hashes) for hashes in zip(*sources, strict=True)]
    assert combined(implementation, sources) == wanted


# Invariants


def test_fold_is_the_same_in_every_memory_form(implementation):
    source = random_source(6, 48)
    slots = list(range(12))
    geometry = (2, 24, 24)
    wanted = source_hashes(implementation, source, slots, geometry)
    wide = random_source(6, 80, seed=1)
    wide[:, 8:56] = source
    shifted = np.zeros(6 * 48 + 1, np.uint8)[1:].reshape(6, 48)
    shifted[:] = source
    read_only = source.copy()
    read_only.flags.writeable = False
    for form in (wide[:, 8:56], shifted, read_only):
        assert source_hashes(implementation, form, slots, geometry) == wanted
