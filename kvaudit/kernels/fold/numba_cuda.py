"""`fold` on a CUDA device: one lane a slot, every KV byte read once and coalesced.

A slot's hash is a serial chain over its words, so a lane owns a slot; but 32 lanes that each walk a
slot of their own would read 32 cache lines at a time. So a warp copies tiles together into shared
memory, and while it folds one, the copies of the next are on their way, past the registers:

    global memory           lane  0 .. 7      8 .. 15   ..    shared memory, a row a slot
    slot 4k    [w0 .. w15]       <- copy                >-+   [w0 .. w15 | pad]  <- lane 0 folds
    slot 4k+1  [w0 .. w15]                   <- copy    >-+   [w0 .. w15 | pad]  <- lane 1 folds
    for k in 0 .. 7, two words a lane and copy                the pad keeps lanes off one bank

The tiles of all slots of a warp make one sequence: the first tile of the next 32 slots is on its
way while the last one of these is folded, so short slots keep the memory as busy as long ones.

Sources of which not everything is a multiple of 16 bytes copy a word a time; where it is not even
whole words, a kernel of its own takes one thread a slot.

`combine`: one thread an entry, 24 bytes of traffic each.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.kernels.async_copy import (
    commit_copies,
    copy_async,
    copy_pair_async,
    load_pair,
    wait_for_older_copies,
)
from kvaudit.kernels.cuda_module import (
    BLOCK_THREADS,
    SIMULATED,
    WARP_THREADS,
    cuda,
    device_function,
    flat_view,
    is_aligned,
    kernel,
    launch,
    types,
    warp_sync,
)
from kvaudit.kernels.fold import scalar
from kvaudit.kernels.hash.numba_cuda import splitmix64

_WORD_BYTES = constants.WORD_BYTES
_ZERO = np.uint64(0)

_PAIR_WORDS = 2
_TILE_WORDS = 16
# Copies of a lane a tile: as many as there are lanes a slot.
_PAIR_PASSES = _TILE_WORDS // _PAIR_WORDS
_WORD_PASSES = _TILE_WORDS
# Rows stay aligned to pairs, and eight lanes that load one at a time find all banks.
_ROW_WORDS = _TILE_WORDS + _PAIR_WORDS
_TILE_SIZE = WARP_THREADS * _ROW_WORDS
# Shared words of a warp: the tile it folds and the one on its way, and where their slots start.
_STARTS = 2 * _TILE_SIZE
_WARP_WORDS = _STARTS + 2 * WARP_THREADS
# In the simulator two warps, so that they could disturb each other.
_BLOCK_THREADS = 2 * WARP_THREADS if SIMULATED else BLOCK_THREADS
_SHARED_BYTES = _BLOCK_THREADS // WARP_THREADS * _WARP_WORDS * _WORD_BYTES
# Shared memory holds five blocks of an SM; with fewer registers than these, starts are spilled.
_MAX_REGISTERS = 96

_NOWHERE = np.int64(-1)
_FIRST_WORD = np.int64(0)
_NO_POWER_OF_TWO = -1

_bytes_word = device_function(scalar.bytes_word)


@device_function
def _slot_start(slot_indices, entry_idx, num_slots, page_size, page_bits, row_stride, slot_stride):
    """Where an entry's slot starts, in the unit of the strides; negative when there is none. int64."""
    if entry_idx >= slot_indices.shape[0]:
        return _NOWHERE
    slot_idx = slot_indices[np.uint64(entry_idx)]
    if slot_idx < 0 or slot_idx >= num_slots:
        return _NOWHERE
    page = slot_idx >> page_bits if page_bits >= 0 else slot_idx // page_size
    return page * row_stride + (slot_idx - page * page_size) * slot_stride


@device_function
def _fold_tile(source_hash, tiles, first, num_words_left):
    """The hash of this lane's slot, carried on over its words of a tile."""
    if num_words_left >= _TILE_WORDS:
        # A constant count is unrolled: the words are read ahead of the chain.
        for word_in_tile in range(0, _TILE_WORDS, _PAIR_WORDS):
            even, odd = load_pair(tiles, first + word_in_tile)
            source_hash = splitmix64(source_hash ^ even)
            source_hash = splitmix64(source_hash ^ odd)
    else:
        for word_in_tile in range(num_words_left):
            word = tiles[np.uint64(first + word_in_tile)]
            source_hash = splitmix64(source_hash ^ word)
    return source_hash


@device_function
def _share_starts(starts, words_per_copy, shared_starts, first, lane, start):
    """Tell every lane where the slots start of which it copies words."""
    # A slot that is nowhere reads the source's first words like any other, and is 0 in the end.
    shared_starts[np.uint64(first + lane)] = np.uint64(max(start, _FIRST_WORD))
    warp_sync()
    lanes_per_slot = _TILE_WORDS // words_per_copy
    for pass_idx in range(lanes_per_slot):
        slot_in_warp = pass_idx * (WARP_THREADS // lanes_per_slot) + lane // lanes_per_slot
        starts[pass_idx] = np.int64(shared_starts[np.uint64(first + slot_in_warp)])


@device_function
def _copy_tile(
    tiles, tile_first, words_per_copy, lane, source_words, starts, first_word, num_words
):
    """Begin to copy this lane's share of the tile that begins at first_word of its slots."""
    lanes_per_slot = _TILE_WORDS // words_per_copy
    word_in_tile = lane % lanes_per_slot * words_per_copy
    word_idx = first_word + word_in_tile
    if word_idx < num_words:
        for pass_idx in range(lanes_per_slot):
            slot_in_warp = pass_idx * (WARP_THREADS // lanes_per_slot) + lane // lanes_per_slot
            tile_idx = tile_first + slot_in_warp * _ROW_WORDS + word_in_tile
            if words_per_copy == _PAIR_WORDS:
                copy_pair_async(tiles, tile_idx, source_words, starts[pass_idx] + word_idx)
            else:
                copy_async(tiles, tile_idx, source_words, starts[pass_idx] + word_idx)


@device_function
def _fold_entries(
    words_per_copy,
    starts,
    source_words,
    slot_indices,
    source_hashes,
    num_slots,
    page_size,
    page_bits,
    row_words,
    words_per_token,
    num_words,
):
    """Fold this thread's entries, words_per_copy words a copy; `starts` has room for every pass."""
    lane = cuda.threadIdx.x % WARP_THREADS
    warp_words = cuda.threadIdx.x // WARP_THREADS * _WARP_WORDS
    shared = cuda.shared.array(0, types.uint64)
    tiles = shared[warp_words : warp_words + _STARTS]
    shared_starts = shared[warp_words + _STARTS : warp_words + _WARP_WORDS]
    # Every thread of a block makes every trip: see `warp_sync`.
    num_entries_left = slot_indices.shape[0] - cuda.blockIdx.x * cuda.blockDim.x
    num_trips = max(num_entries_left + cuda.gridsize(1) - 1, 0) // cuda.gridsize(1)
    num_tiles = num_trips * ((num_words + _TILE_WORDS - 1) // _TILE_WORDS)
    source_hash = _ZERO
    word_idx = folded_word = 0
    entry_idx = folded_entry = next_entry = cuda.grid(1)
    start = folded_start = next_start = _slot_start(
        slot_indices, next_entry, num_slots, page_size, page_bits, row_words, words_per_token
    )
    for tile_idx in range(num_tiles + 1):
        if tile_idx < num_tiles:
            if word_idx == 0:
                start, entry_idx = next_start, next_entry
                first_start = tile_idx % 2 * WARP_THREADS
                _share_starts(starts, words_per_copy, shared_starts, first_start, lane, start)
                next_entry += cuda.gridsize(1)
                next_start = _slot_start(
                    slot_indices,
                    next_entry,
                    num_slots,
                    page_size,
                    page_bits,
                    row_words,
                    words_per_token,
                )
            first = tile_idx % 2 * _TILE_SIZE
            _copy_tile(
                tiles, first, words_per_copy, lane, source_words, starts, word_idx, num_words
            )
        commit_copies()
        if tile_idx > 0:
            wait_for_older_copies()
            warp_sync()
            first = (tile_idx - 1) % 2 * _TILE_SIZE + lane * _ROW_WORDS
            source_hash = _fold_tile(source_hash, tiles, first, num_words - folded_word)
            warp_sync()
            if word_idx == 0 or tile_idx == num_tiles:
                if folded_entry < slot_indices.shape[0]:
                    slot_hash = source_hash if folded_start >= 0 else _ZERO
                    source_hashes[np.uint64(folded_entry)] = slot_hash
                source_hash = _ZERO
        folded_word, folded_entry, folded_start = word_idx, entry_idx, start
        word_idx = word_idx + _TILE_WORDS if word_idx + _TILE_WORDS < num_words else 0


@kernel(max_registers=_MAX_REGISTERS)
def _fold_pairs_kernel(
    source_words,
    slot_indices,
    source_hashes,
    num_slots,
    page_size,
    page_bits,
    row_words,
    words_per_token,
    num_words,
):
    _fold_entries(
        _PAIR_WORDS,
        cuda.local.array(_PAIR_PASSES, types.int64),
        source_words,
        slot_indices,
        source_hashes,
        num_slots,
        page_size,
        page_bits,
        row_words,
        words_per_token,
        num_words,
    )


@kernel(max_registers=_MAX_REGISTERS)
def _fold_words_kernel(
    source_words,
    slot_indices,
    source_hashes,
    num_slots,
    page_size,
    page_bits,
    row_words,
    words_per_token,
    num_words,
):
    _fold_entries(
        1,
        cuda.local.array(_WORD_PASSES, types.int64),
        source_words,
        slot_indices,
        source_hashes,
        num_slots,
        page_size,
        page_bits,
        row_words,
        words_per_token,
        num_words,
    )


@kernel
def _fold_bytes_kernel(
    source_bytes,
    slot_indices,
    source_hashes,
    num_slots,
    page_size,
    page_bits,
    row_bytes,
    num_bytes_per_token,
    read_bytes,
):
    for entry_idx in range(cuda.grid(1), slot_indices.shape[0], cuda.gridsize(1)):
        start = _slot_start(
            slot_indices, entry_idx, num_slots, page_size, page_bits, row_bytes, num_bytes_per_token
        )
        source_hash = _ZERO
        if start >= 0:
            for byte_idx in range(0, read_bytes, _WORD_BYTES):
                word = _bytes_word(source_bytes, 0, start + byte_idx, read_bytes - byte_idx)
                source_hash = splitmix64(source_hash ^ word)
        source_hashes[entry_idx] = source_hash


@kernel
def _combine_kernel(source_hashes, real_kv_hashes):
    for entry_idx in range(cuda.grid(1), source_hashes.shape[0], cuda.gridsize(1)):
        real_kv_hashes[entry_idx] = splitmix64(real_kv_hashes[entry_idx] ^ source_hashes[entry_idx])


KERNELS = (_fold_pairs_kernel, _fold_words_kernel, _fold_bytes_kernel, _combine_kernel)


def launch_fold(
    source_bytes, slot_indices, source_hashes, page_size, num_bytes_per_token, read_bytes
):
    """Enqueue `fold`; all arrays are on the device."""
    num_slots = source_bytes.shape[0] * page_size
    page_bits = page_size.bit_length() - 1 if page_size.bit_count() == 1 else _NO_POWER_OF_TWO
    places = (num_slots, page_size, page_bits)
    sizes = (source_bytes.strides[0], num_bytes_per_token, read_bytes)
    by_words = [
        (words_per_copy, compiled_kernel)
        for words_per_copy, compiled_kernel in (
            (_PAIR_WORDS, _fold_pairs_kernel),
            (1, _fold_words_kernel),
        )
        if _is_whole(source_bytes, sizes, words_per_copy * _WORD_BYTES)
    ]
    if not by_words or num_slots == 0 or read_bytes == 0:
        # The general form: right for any alignment and size, and where there is nothing to read.
        source = flat_view(source_bytes, np.uint8)
        arguments = (source, slot_indices, source_hashes, *places, *sizes)
        launch(_fold_bytes_kernel, arguments, num_items=slot_indices.shape[0])
        return
    words = [size // _WORD_BYTES for size in sizes]
    source = flat_view(source_bytes, np.uint64)
    launch(
        by_words[0][1],
        (source, slot_indices, source_hashes, *places, *words),
        num_items=slot_indices.shape[0],
        block_threads=_BLOCK_THREADS,
        shared_bytes=_SHARED_BYTES,
    )


def _is_whole(source_bytes, sizes, num_bytes):
    """Whether a source's address and sizes are all multiples of num_bytes."""
    return is_aligned(source_bytes, num_bytes) and all(size % num_bytes == 0 for size in sizes)


def launch_combine(source_hashes, real_kv_hashes):
    """Enqueue `combine`; all arrays are on the device."""
    launch(_combine_kernel, (source_hashes, real_kv_hashes), num_items=source_hashes.shape[0])
