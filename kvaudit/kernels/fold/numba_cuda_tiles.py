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

from kvaudit.kernels.async_copy import commit_copies, wait_for_older_copies
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
    store_hash,
)
from kvaudit.kernels.fold.numba_cuda_warp_tile import (
    NO_BITS,
    ONE_PIECE,
    ROW_WORDS,
    STARTS,
    TILE_SIZE,
    TILE_WORDS,
    WARP_WORDS,
    copy_tile,
    entry_start,
    fold_tile,
    share_starts,
)

# Copies of a lane a tile: as many as there are lanes a slot.
_PAIR_PASSES = TILE_WORDS // PAIR_WORDS
_WORD_PASSES = TILE_WORDS
# In the simulator two warps, so that they could disturb each other.
TILE_BLOCK_THREADS = 2 * WARP_THREADS if SIMULATED else BLOCK_THREADS
TILE_SHARED_BYTES = TILE_BLOCK_THREADS // WARP_THREADS * WARP_WORDS * WORD_BYTES
# Shared memory holds five blocks of an SM; with fewer registers than these, starts are spilled.
_MAX_REGISTERS = 96

_ZERO = np.uint64(0)


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
    piece_words,
    piece_bits,
):
    """Fold this thread's entries, words_per_copy words a copy.

    `starts` has room for every pass. piece_words and piece_bits are those of slots that lie in
    pieces, or ONE_PIECE and NO_BITS.
    """
    num_words = geometry[NUM_UNITS]
    lane = cuda.threadIdx.x % WARP_THREADS
    warp_words = cuda.threadIdx.x // WARP_THREADS * WARP_WORDS
    shared = cuda.shared.array(0, types.uint64)
    tiles = shared[warp_words : warp_words + STARTS]
    shared_starts = shared[warp_words + STARTS : warp_words + WARP_WORDS]
    # Every thread of a block makes every trip: see `warp_sync`.
    num_entries_left = num_entries - cuda.blockIdx.x * cuda.blockDim.x
    num_trips = max(num_entries_left + cuda.gridsize(1) - 1, 0) // cuda.gridsize(1)
    num_tiles = num_trips * ((num_words + TILE_WORDS - 1) // TILE_WORDS)
    source_hash = _ZERO
    word_idx = folded_word = 0
    entry_idx = folded_entry = next_entry = cuda.grid(1)
    start = folded_start = next_start = entry_start(slot_indices, next_entry, num_entries, geometry)
    for tile_idx in range(num_tiles + 1):
        if tile_idx < num_tiles:
            if word_idx == 0:
                start, entry_idx = next_start, next_entry
                first_start = tile_idx % 2 * WARP_THREADS
                share_starts(starts, words_per_copy, shared_starts, first_start, lane, start)
                next_entry += cuda.gridsize(1)
                next_start = entry_start(slot_indices, next_entry, num_entries, geometry)
            first = tile_idx % 2 * TILE_SIZE
            copy_tile(
                tiles,
                first,
                words_per_copy,
                lane,
                source_words,
                starts,
                word_idx,
                geometry,
                piece_words,
                piece_bits,
            )
        commit_copies()
        if tile_idx > 0:
            wait_for_older_copies()
            warp_sync()
            first = (tile_idx - 1) % 2 * TILE_SIZE + lane * ROW_WORDS
            source_hash = fold_tile(source_hash, tiles, first, num_words - folded_word)
            warp_sync()
            if word_idx == 0 or tile_idx == num_tiles:
                if folded_entry < num_entries:
                    slot_hash = source_hash if folded_start >= 0 else _ZERO
                    store_hash(hashes, folded_entry, slot_hash, outcome)
                source_hash = _ZERO
        folded_word, folded_entry, folded_start = word_idx, entry_idx, start
        word_idx = word_idx + TILE_WORDS if word_idx + TILE_WORDS < num_words else 0


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
        ONE_PIECE,
        NO_BITS,
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
        ONE_PIECE,
        NO_BITS,
    )


@kernel(max_registers=_MAX_REGISTERS)
def fold_piece_pairs_kernel(
    source_words,
    slot_indices,
    num_valid,
    enable,
    hashes,
    outcome,
    geometry,
    piece_words,
    piece_bits,
):
    """The same of slots that lie in pieces, whose stride is the geometry's slot stride."""
    _fold_tiles(
        PAIR_WORDS,
        cuda.local.array(_PAIR_PASSES, types.int64),
        source_words,
        slot_indices,
        num_active(slot_indices, num_valid, enable),
        hashes,
        outcome,
        geometry,
        piece_words,
        piece_bits,
    )


@kernel(max_registers=_MAX_REGISTERS)
def fold_piece_words_kernel(
    source_words,
    slot_indices,
    num_valid,
    enable,
    hashes,
    outcome,
    geometry,
    piece_words,
    piece_bits,
):
    """The same of slots that lie in pieces, whose stride is the geometry's slot stride."""
    _fold_tiles(
        1,
        cuda.local.array(_WORD_PASSES, types.int64),
        source_words,
        slot_indices,
        num_active(slot_indices, num_valid, enable),
        hashes,
        outcome,
        geometry,
        piece_words,
        piece_bits,
    )
