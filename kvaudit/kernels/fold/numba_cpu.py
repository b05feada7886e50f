"""`fold` on the CPU: rows of slot_indices are shared out among threads.

A chain waits for its multiplier, so a thread keeps LANES slots going at once. Their words are first
laid across, a tile at a time, so that one vector instruction advances several chains:

    slots in memory            a tile, in the core's cache
    a: a0 a1 a2 ..             a0 b0 c0 ..   <- every chain advances by one word
    b: b0 b1 b2 ..      ->     a1 b1 c1 ..   <- and by the next
    c: c0 c1 c2 ..             a2 b2 c2 ..

Each byte is read once. Aligned sources are read as words, others byte by byte.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit.constants import WORD_BYTES
from kvaudit.kernels.array_forms import read_only, widened_rows
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.fold import numba_cpu_pieces, scalar
from kvaudit.kernels.hash.numba_cpu import splitmix64
from kvaudit.kernels.row_threads import run_rows

# The fastest of the shapes tried at 1 KiB a slot, which then is one tile; it lives in the L2 cache.
_LANES = 64
_TILE_WORDS = 128
# Rows of a tile do not all fall on the same few sets of a cache whose size is a power of two.
_TILE_PADDING = 8
_UNROLLED_WORDS = 16
_BYTES_PER_TASK = 1 << 20
_COMBINE_ROWS_PER_TASK = 1 << 16

_ZERO = np.uint64(0)

_slot_column = njit(scalar.slot_column)
_bytes_word = njit(scalar.bytes_word)


@njit
def _slot_start(slot_idx, num_rows, row_units, page_size, num_units_per_token):
    """Where a slot begins, in units (words or bytes) of the flat source; -1 outside the pool."""
    if slot_idx < 0 or slot_idx >= num_rows * page_size:
        return np.int64(-1)
    column = _slot_column(slot_idx, page_size, num_units_per_token)
    return slot_idx // page_size * row_units + column


@njit
def _lay_rest(tile, words, starts, first_word, num_words):
    """Lay the words behind the last whole tile of every lane's slot across."""
    for lane in range(_LANES):
        start = starts[lane] + first_word
        rest = words[start : start + num_words]
        for word_idx in range(num_words):
            tile[word_idx, lane] = rest[word_idx]


@compiled
def _fold_words(
    source_words,
    slot_indices,
    source_hashes,
    page_size,
    num_words_per_token,
    num_words,
    first,
    last,
):
    """Entries [first, last) of a source whose slots begin at words: [num_rows, row words], uint64."""
    num_rows, row_words = source_words.shape
    words = source_words.reshape(-1)
    starts = np.empty(_LANES, np.int64)
    chains = np.empty(_LANES, np.uint64)
    tile = np.empty((_TILE_WORDS, _LANES + _TILE_PADDING), np.uint64)
    slot_indices = slot_indices[first:last]
    source_hashes = source_hashes[first:last]
    num_entries = last - first
    for first_entry in range(0, num_entries, _LANES):
        num_lanes = min(_LANES, num_entries - first_entry)
        for lane in range(_LANES):
            # Idle lanes fold the last entry again; a slot outside the pool folds the first one.
            slot_idx = slot_indices[first_entry + min(lane, num_lanes - 1)]
            start = _slot_start(slot_idx, num_rows, row_words, page_size, num_words_per_token)
            starts[lane] = max(start, 0)
            chains[lane] = _ZERO
        for first_word in range(0, num_words, _TILE_WORDS):
            tile_words = min(_TILE_WORDS, num_words - first_word)
            # A whole tile has constant counts: on memory past the cache that is a third faster.
            if tile_words == _TILE_WORDS:
                for lane in range(_LANES):
                    start = starts[lane] + first_word
                    for block in range(0, _TILE_WORDS, _UNROLLED_WORDS):
                        for word_idx in range(_UNROLLED_WORDS):
                            tile[block + word_idx, lane] = words[start + block + word_idx]
            else:
                _lay_rest(tile, words, starts, first_word, tile_words)
            for word_idx in range(tile_words):
                for lane in range(_LANES):
                    chains[lane] = splitmix64(chains[lane] ^ tile[word_idx, lane])
        for lane in range(num_lanes):
            slot_idx = slot_indices[first_entry + lane]
            start = _slot_start(slot_idx, num_rows, row_words, page_size, num_words_per_token)
            source_hashes[first_entry + lane] = chains[lane] if start >= 0 else _ZERO


@compiled
def _fold_bytes(
    source_bytes,
    slot_indices,
    source_hashes,
    page_size,
    num_bytes_per_token,
    read_bytes,
    first,
    last,
):
    """Rows of any alignment and size: source_bytes is [num_rows, row bytes], uint8."""
    num_slots = source_bytes.shape[0] * page_size
    for entry in range(first, last):
        slot_idx = slot_indices[entry]
        chain = _ZERO
        if slot_idx >= 0 and slot_idx < num_slots:
            row = slot_idx // page_size
            column = _slot_column(slot_idx, page_size, num_bytes_per_token)
            for byte_idx in range(0, read_bytes, WORD_BYTES):
                word = _bytes_word(source_bytes, row, column + byte_idx, read_bytes - byte_idx)
                chain = splitmix64(chain ^ word)
        source_hashes[entry] = chain


@compiled
def _combine_rows(source_hashes, real_kv_hashes, first, last):
    for entry in range(first, last):
        real_kv_hashes[entry] = splitmix64(real_kv_hashes[entry] ^ source_hashes[entry])


# Those of an audit, whose slots are rows of a file.
AUDIT_KERNELS = (_fold_words, _fold_bytes, _combine_rows)
KERNELS = (*AUDIT_KERNELS, *numba_cpu_pieces.KERNELS)

launch_fold_pieces = numba_cpu_pieces.launch_fold_pieces


def launch_fold(
    source_bytes: NDArray[np.uint8],
    slot_indices: NDArray[np.int64],
    source_hashes: NDArray[np.uint64],
    page_size: int,
    num_bytes_per_token: int,
    read_bytes: int,
) -> None:
    """The contract of `kvaudit.kernels.fold`."""
    if source_bytes.shape[0] == 0:
        source_hashes[:] = 0
        return
    slot_indices = read_only(slot_indices)
    source = widened_rows(source_bytes)
    layout = (source.ctypes.data, source.shape[1], num_bytes_per_token, read_bytes)
    if all(number % WORD_BYTES == 0 for number in layout):
        kernel, source, unit = _fold_words, source.view(np.uint64), WORD_BYTES
    else:
        kernel, unit = _fold_bytes, 1
    num_units_per_token, num_units = num_bytes_per_token // unit, read_bytes // unit

    def fold_rows(first: int, last: int) -> None:
        kernel(
            source,
            slot_indices,
            source_hashes,
            page_size,
            num_units_per_token,
            num_units,
            first,
            last,
        )

    rows_per_task = max(_LANES, _BYTES_PER_TASK // max(1, read_bytes))
    run_rows(fold_rows, slot_indices.shape[0], rows_per_task=rows_per_task)


def launch_combine(source_hashes: NDArray[np.uint64], real_kv_hashes: NDArray[np.uint64]) -> None:
    """The contract of `kvaudit.kernels.fold`, one source."""
    source_hashes = read_only(source_hashes)

    def combine_rows(first: int, last: int) -> None:
        _combine_rows(source_hashes, real_kv_hashes, first, last)

    run_rows(combine_rows, source_hashes.shape[0], rows_per_task=_COMBINE_ROWS_PER_TASK)


def launch_fold_source(
    source_bytes: NDArray[np.uint8],
    slot_indices: NDArray[np.int64],
    num_valid: NDArray[np.int32],
    enable: NDArray[np.int32],
    real_kv_hashes: NDArray[np.uint64],
    page_size: int,
    num_bytes_per_token: int,
    read_bytes: int,
    is_first_source: bool,
) -> None:
    """The contract of `kvaudit.kernels.fold`, the entries of a launch."""
    num_active = slot_indices.shape[0]
    if num_valid.shape[0]:
        num_active = max(0, min(int(num_valid[0]), num_active))
    if enable.shape[0] and enable[0] == 0:
        num_active = 0
    active_hashes = real_kv_hashes[:num_active]
    if is_first_source:
        active_hashes[:] = 0
    source_hashes = np.empty_like(active_hashes)
    geometry = (page_size, num_bytes_per_token, read_bytes)
    launch_fold(source_bytes, slot_indices[:num_active], source_hashes, *geometry)
    launch_combine(source_hashes, active_hashes)


def launch_count_written(
    write_offsets: NDArray[np.int64],
    write_num_valid_reqs: NDArray[np.int32],
    num_valid: NDArray[np.int32],
    num_tokens: int,
) -> None:
    """The contract of `kvaudit.kernels.fold`, the entries of a write."""
    num_reqs = max(0, min(int(write_num_valid_reqs[0]), write_offsets.shape[0] - 1))
    num_valid[0] = min(int(write_offsets[1 : num_reqs + 1].max(initial=0)), num_tokens)
