"""How a warp folds slots together: tiles copied through shared memory, one lane a slot.

A slot's hash is a serial chain over its words, so a lane owns a slot; but 32 lanes that each walk a
slot of their own would read 32 cache lines at a time. So a warp copies tiles together into shared
memory, and while it folds one, the copies of the next are on their way, past the registers:

    global memory           lane  0 .. 7      8 .. 15   ..    shared memory, a row a slot
    slot 4k    [w0 .. w15]       <- copy                >-+   [w0 .. w15 | pad]  <- lane 0 folds
    slot 4k+1  [w0 .. w15]                   <- copy    >-+   [w0 .. w15 | pad]  <- lane 1 folds
    for k in 0 .. 7, two words a lane and copy                the pad keeps lanes off one bank

The tiles of all slots of a warp make one sequence: the first tile of the next 32 slots is on its
way while the last one of these is folded, so short slots keep the memory as busy as long ones.
"""

from __future__ import annotations

import numpy as np

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
    kernel,
    types,
    warp_sync,
)
from kvaudit.kernels.fold.numba_cuda_slots import (
    NUM_UNITS,
    PAIR_WORDS,
    WORD_BYTES,
    num_active,
    slot_start,
    store_hash,
)
from kvaudit.kernels.hash.numba_cuda import splitmix64

_TILE_WORDS = 16
# Copies of a lane a tile: as many as there are lanes a slot.
_PAIR_PASSES = _TILE_WORDS // PAIR_WORDS
_WORD_PASSES = _TILE_WORDS
# Rows stay aligned to pairs, and eight lanes that load one at a time find all banks.
_ROW_WORDS = _TILE_WORDS + PAIR_WORDS
_TILE_SIZE = WARP_THREADS * _ROW_WORDS
# Shared words of a warp: the tile it folds and the one on its way, and where their slots start.
_STARTS = 2 * _TILE_SIZE
_WARP_WORDS = _STARTS + 2 * WARP_THREADS
# In the simulator two warps, so that they could disturb each other.
TILE_BLOCK_THREADS = 2 * WARP_THREADS if SIMULATED else BLOCK_THREADS
TILE_SHARED_BYTES = TILE_BLOCK_THREADS // WARP_THREADS * _WARP_WORDS * WORD_BYTES
# Shared memory holds five blocks of an SM; with fewer registers than these, starts are spilled.
_MAX_REGISTERS = 96

_NOWHERE = np.int64(-1)
_FIRST_WORD = np.int64(0)
_ZERO = np.uint64(0)


@device_function
def _entry_start(slot_indices, entry_idx, num_entries, geometry):
    """Where an entry's slot starts, in words; negative when there is none. int64."""
    if entry_idx >= num_entries:
        return _NOWHERE
    return slot_start(slot_indices[np.uint64(entry_idx)], geometry)


@device_function
def _fold_tile(source_hash, tiles, first, num_words_left):
    """The hash of this lane's slot, carried on over its words of a tile."""
    if num_words_left >= _TILE_WORDS:
        # A constant count is unrolled: the words are read ahead of the chain.
        for word_in_tile in range(0, _TILE_WORDS, PAIR_WORDS):
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
            if words_per_copy == PAIR_WORDS:
                copy_pair_async(tiles, tile_idx, source_words, starts[pass_idx] + word_idx)
            else:
                copy_async(tiles, tile_idx, source_words, starts[pass_idx] + word_idx)


@device_function
def _fold_tiles(
    words_per_copy,
    starts,
    source_words,
    slot_indices,
    num_entries,
    hashes,
    outcome,
    geometry,
):
    """Fold this thread's entries, words_per_copy words a copy; `starts` has room for every pass."""
    num_words = geometry[NUM_UNITS]
    lane = cuda.threadIdx.x % WARP_THREADS
    warp_words = cuda.threadIdx.x // WARP_THREADS * _WARP_WORDS
    shared = cuda.shared.array(0, types.uint64)
    tiles = shared[warp_words : warp_words + _STARTS]
    shared_starts = shared[warp_words + _STARTS : warp_words + _WARP_WORDS]
    # Every thread of a block makes every trip: see `warp_sync`.
    num_entries_left = num_entries - cuda.blockIdx.x * cuda.blockDim.x
    num_trips = max(num_entries_left + cuda.gridsize(1) - 1, 0) // cuda.gridsize(1)
    num_tiles = num_trips * ((num_words + _TILE_WORDS - 1) // _TILE_WORDS)
    source_hash = _ZERO
    word_idx = folded_word = 0
    entry_idx = folded_entry = next_entry = cuda.grid(1)
    start = folded_start = next_start = _entry_start(
        slot_indices, next_entry, num_entries, geometry
    )
    for tile_idx in range(num_tiles + 1):
        if tile_idx < num_tiles:
            if word_idx == 0:
                start, entry_idx = next_start, next_entry
                first_start = tile_idx % 2 * WARP_THREADS
                _share_starts(starts, words_per_copy, shared_starts, first_start, lane, start)
                next_entry += cuda.gridsize(1)
                next_start = _entry_start(slot_indices, next_entry, num_entries, geometry)
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
                if folded_entry < num_entries:
                    slot_hash = source_hash if folded_start >= 0 else _ZERO
                    store_hash(hashes, folded_entry, slot_hash, outcome)
                source_hash = _ZERO
        folded_word, folded_entry, folded_start = word_idx, entry_idx, start
        word_idx = word_idx + _TILE_WORDS if word_idx + _TILE_WORDS < num_words else 0


@kernel(max_registers=_MAX_REGISTERS)
def fold_pairs_kernel(source_words, slot_indices, num_valid, enable, hashes, outcome, geometry):
    """Sources of which all is whole pairs of words: a pair a copy."""
    _fold_tiles(
        PAIR_WORDS,
        cuda.local.array(_PAIR_PASSES, types.int64),
        source_words,
        slot_indices,
        num_active(slot_indices, num_valid, enable),
        hashes,
        outcome,
        geometry,
    )


@kernel(max_registers=_MAX_REGISTERS)
def fold_words_kernel(source_words, slot_indices, num_valid, enable, hashes, outcome, geometry):
    """Sources of which all is whole words: a word a copy."""
    _fold_tiles(
        1,
        cuda.local.array(_WORD_PASSES, types.int64),
        source_words,
        slot_indices,
        num_active(slot_indices, num_valid, enable),
        hashes,
        outcome,
        geometry,
    )
