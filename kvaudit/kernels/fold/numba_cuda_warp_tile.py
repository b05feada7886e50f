"""What a warp does with a tile of its slots: it copies it together, and each lane folds its slot's row.

Where a slot lies in pieces, the words of a tile are found piece by piece.
"""

from __future__ import annotations

import numpy as np

from kvaudit.kernels.async_copy import copy_async, copy_pair_async, load_pair
from kvaudit.kernels.cuda_module import WARP_THREADS, device_function, warp_sync
from kvaudit.kernels.fold.numba_cuda_slots import NUM_UNITS, PAIR_WORDS, PIECE_STRIDE, slot_start
from kvaudit.kernels.hash.numba_cuda import splitmix64

TILE_WORDS = 16
# Rows stay aligned to pairs, and eight lanes that load one at a time find all banks.
ROW_WORDS = TILE_WORDS + PAIR_WORDS
TILE_SIZE = WARP_THREADS * ROW_WORDS
# Shared words of a warp: the tile it folds and the one on its way, and where their slots start.
STARTS = 2 * TILE_SIZE
WARP_WORDS = STARTS + 2 * WARP_THREADS
# Words a piece, and their bits, of slots that lie together.
ONE_PIECE = 0
NO_BITS = 0

_NOWHERE = np.int64(-1)
_FIRST_WORD = np.int64(0)
_ZERO = np.uint64(0)


@device_function
def entry_start(slot_indices, entry_idx, num_entries, geometry):
    """Where an entry's slot starts, in words; negative when there is none. int64."""
    if entry_idx >= num_entries:
        return _NOWHERE
    return slot_start(slot_indices[np.uint64(entry_idx)], geometry)


@device_function
def fold_tile(source_hash, tiles, first, num_words_left):
    """The hash of this lane's slot, carried on over its words of a tile."""
    if num_words_left >= TILE_WORDS:
        # A constant count is unrolled: the words are read ahead of the chain.
        for word_in_tile in range(0, TILE_WORDS, PAIR_WORDS):
            even, odd = load_pair(tiles, first + word_in_tile)
            source_hash = splitmix64(source_hash ^ even)
            source_hash = splitmix64(source_hash ^ odd)
    else:
        for word_in_tile in range(num_words_left):
            word = tiles[np.uint64(first + word_in_tile)]
            source_hash = splitmix64(source_hash ^ word)
    return source_hash


@device_function
def share_starts(starts, words_per_copy, shared_starts, first, lane, start):
    """Tell every lane where the slots start of which it copies words."""
    # A slot that is nowhere reads the source's first words like any other, and is 0 in the end.
    shared_starts[np.uint64(first + lane)] = np.uint64(max(start, _FIRST_WORD))
    warp_sync()
    lanes_per_slot = TILE_WORDS // words_per_copy
    for pass_idx in range(lanes_per_slot):
        slot_in_warp = pass_idx * (WARP_THREADS // lanes_per_slot) + lane // lanes_per_slot
        starts[pass_idx] = np.int64(shared_starts[np.uint64(first + slot_in_warp)])


@device_function
def _word_place(word_idx, piece_words, piece_bits, geometry):
    """Where a slot's word is, counted from the slot's start."""
    if piece_words == ONE_PIECE:
        return word_idx
    piece = word_idx >> piece_bits if piece_bits >= 0 else word_idx // piece_words
    return piece * geometry[PIECE_STRIDE] + word_idx - piece * piece_words


@device_function
def copy_tile(
    tiles,
    tile_first,
    words_per_copy,
    lane,
    source_words,
    starts,
    first_word,
    geometry,
    piece_words,
    piece_bits,
):
    """Begin to copy this lane's share of the tile that begins at first_word of its slots."""
    lanes_per_slot = TILE_WORDS // words_per_copy
    word_in_tile = lane % lanes_per_slot * words_per_copy
    word_idx = first_word + word_in_tile
    if word_idx < geometry[NUM_UNITS]:
        word_place = _word_place(word_idx, piece_words, piece_bits, geometry)
        for pass_idx in range(lanes_per_slot):
            slot_in_warp = pass_idx * (WARP_THREADS // lanes_per_slot) + lane // lanes_per_slot
            tile_idx = tile_first + slot_in_warp * ROW_WORDS + word_in_tile
            if words_per_copy == PAIR_WORDS:
                copy_pair_async(tiles, tile_idx, source_words, starts[pass_idx] + word_place)
            else:
                copy_async(tiles, tile_idx, source_words, starts[pass_idx] + word_place)
