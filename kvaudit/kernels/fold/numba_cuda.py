"""`fold` on a CUDA device: one lane a slot, every KV byte read once and coalesced.

A slot's hash is a serial chain over its words, so a lane owns a slot; but 32 lanes that each walk a
slot of their own would read 32 cache lines at a time. So a warp reads tiles together and hands them
over in shared memory, while the words of the next tile are already on their way:

    global memory           lane  0 .. 15     16 .. 31        shared memory, a row a slot
    slot 2k    [w0 .. w15]       <- read            >-+       [w0 .. w15 | pad]  <- lane 0 folds
    slot 2k+1  [w0 .. w15]                   <- read  +-> k   [w0 .. w15 | pad]  <- lane 1 folds
    for k in 0 .. 15, prefetched in registers                 the pad keeps lanes off one bank

Sources whose slots are no whole words have a kernel of their own, one thread a slot: its byte loads
in the other would cost the registers that keep more warps at work.

`combine`: one thread an entry, 24 bytes of traffic each.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
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

_TILE_WORDS = 16
_SLOTS_PER_PASS = WARP_THREADS // _TILE_WORDS
_TILE_PASSES = WARP_THREADS // _SLOTS_PER_PASS
_TILE_STRIDE = _TILE_WORDS + 1
# Shared words of a warp: the tile, then where each of its slots starts.
_STARTS = WARP_THREADS * _TILE_STRIDE
_WARP_WORDS = _STARTS + WARP_THREADS
# In the simulator two warps, so that they could disturb each other.
_BLOCK_THREADS = 2 * WARP_THREADS if SIMULATED else 2 * BLOCK_THREADS
_SHARED_BYTES = _BLOCK_THREADS // WARP_THREADS * _WARP_WORDS * _WORD_BYTES

_NOWHERE = np.int64(-1)
_FIRST_WORD = np.int64(0)

_slot_column = device_function(scalar.slot_column)
_bytes_word = device_function(scalar.bytes_word)


@device_function
def _slot_start(slot_indices, entry_idx, num_slots, page_size, row_stride, slot_stride):
    """Where an entry's slot starts, in the unit of the strides; negative when there is none. int64."""
    if entry_idx >= slot_indices.shape[0]:
        return _NOWHERE
    slot_idx = slot_indices[entry_idx]
    if slot_idx < 0 or slot_idx >= num_slots:
        return _NOWHERE
    return slot_idx // page_size * row_stride + _slot_column(slot_idx, page_size, slot_stride)


@device_function
def _prefetch_tile(prefetched, starts, lane, source_words, first_word, num_words):
    """Read this lane's share of the tile that begins at first_word into registers."""
    word_idx = first_word + lane % _TILE_WORDS
    if word_idx < num_words:
        for tile_pass in range(_TILE_PASSES):
            start = np.int64(starts[tile_pass * _SLOTS_PER_PASS + lane // _TILE_WORDS])
            prefetched[tile_pass] = source_words[0, start + word_idx]


@device_function
def _stage_tile(tile, lane, prefetched):
    """Hand this lane's share of a tile over to the lanes that own its slots."""
    for tile_pass in range(_TILE_PASSES):
        slot_in_warp = tile_pass * _SLOTS_PER_PASS + lane // _TILE_WORDS
        tile[slot_in_warp * _TILE_STRIDE + lane % _TILE_WORDS] = prefetched[tile_pass]


@device_function
def _fold_tile(source_hash, tile, lane, num_words_left):
    """The hash of this lane's slot, carried on over its words of the tile."""
    first = lane * _TILE_STRIDE
    if num_words_left >= _TILE_WORDS:
        # A constant count is unrolled: the words are read ahead of the chain.
        for word_in_tile in range(_TILE_WORDS):
            source_hash = splitmix64(source_hash ^ tile[first + word_in_tile])
    else:
        for word_in_tile in range(num_words_left):
            source_hash = splitmix64(source_hash ^ tile[first + word_in_tile])
    return source_hash


@kernel
def _fold_words_kernel(
    source_words,
    slot_indices,
    source_hashes,
    num_slots,
    page_size,
    row_words,
    words_per_token,
    num_words,
):
    lane = cuda.threadIdx.x % WARP_THREADS
    warp_words = cuda.threadIdx.x // WARP_THREADS * _WARP_WORDS
    shared = cuda.shared.array(0, types.uint64)
    tile = shared[warp_words : warp_words + _STARTS]
    starts = shared[warp_words + _STARTS : warp_words + _WARP_WORDS]
    prefetched = cuda.local.array(_TILE_PASSES, types.uint64)
    # Every thread of a block makes every trip: see `warp_sync`.
    for first_entry in range(
        cuda.blockIdx.x * cuda.blockDim.x, slot_indices.shape[0], cuda.gridsize(1)
    ):
        entry_idx = first_entry + cuda.threadIdx.x
        start = _slot_start(
            slot_indices, entry_idx, num_slots, page_size, row_words, words_per_token
        )
        # A slot that is nowhere reads the source's first words like any other, and is 0 in the end.
        starts[lane] = np.uint64(max(start, _FIRST_WORD))
        warp_sync()
        source_hash = _ZERO
        _prefetch_tile(prefetched, starts, lane, source_words, 0, num_words)
        for first_word in range(0, num_words, _TILE_WORDS):
            _stage_tile(tile, lane, prefetched)
            warp_sync()
            _prefetch_tile(
                prefetched, starts, lane, source_words, first_word + _TILE_WORDS, num_words
            )
            source_hash = _fold_tile(source_hash, tile, lane, num_words - first_word)
            warp_sync()
        if entry_idx < slot_indices.shape[0]:
            source_hashes[entry_idx] = source_hash if start >= 0 else _ZERO


@kernel
def _fold_bytes_kernel(
    source_bytes,
    slot_indices,
    source_hashes,
    num_slots,
    page_size,
    row_bytes,
    num_bytes_per_token,
    read_bytes,
):
    for entry_idx in range(cuda.grid(1), slot_indices.shape[0], cuda.gridsize(1)):
        start = _slot_start(
            slot_indices, entry_idx, num_slots, page_size, row_bytes, num_bytes_per_token
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


KERNELS = (_fold_words_kernel, _fold_bytes_kernel, _combine_kernel)


def launch_fold(
    source_bytes, slot_indices, source_hashes, page_size, num_bytes_per_token, read_bytes
):
    """Enqueue `fold`; all arrays are on the device."""
    num_slots = source_bytes.shape[0] * page_size
    sizes = (source_bytes.strides[0], num_bytes_per_token, read_bytes)
    by_word = is_aligned(source_bytes, _WORD_BYTES) and all(n % _WORD_BYTES == 0 for n in sizes)
    if not by_word or num_slots == 0:
        # The general form: right for any alignment and size, and where there is nothing to read.
        source = flat_view(source_bytes, np.uint8)
        arguments = (source, slot_indices, source_hashes, num_slots, page_size, *sizes)
        launch(_fold_bytes_kernel, arguments, num_items=slot_indices.shape[0])
        return
    words = [size // _WORD_BYTES for size in sizes]
    source = flat_view(source_bytes, np.uint64)
    launch(
        _fold_words_kernel,
        (source, slot_indices, source_hashes, num_slots, page_size, *words),
        num_items=slot_indices.shape[0],
        block_threads=_BLOCK_THREADS,
        shared_bytes=_SHARED_BYTES,
    )


def launch_combine(source_hashes, real_kv_hashes):
    """Enqueue `combine`; all arrays are on the device."""
    launch(_combine_kernel, (source_hashes, real_kv_hashes), num_items=source_hashes.shape[0])
