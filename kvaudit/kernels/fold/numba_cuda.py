"""`fold` on a CUDA device: one lane a slot, every KV byte read once and coalesced.

A slot's hash is a serial chain over its words, so a lane owns a slot; but 32 lanes that each walk a
slot of their own would read 32 cache lines at a time. So a warp reads tiles together and hands them
over in shared memory, while the words of the next tile are already on their way:

    global memory           lane  0 .. 15     16 .. 31        shared memory, a row a slot
    slot 2k    [w0 .. w15]       <- read            >-+       [w0 .. w15 | pad]  <- lane 0 folds
    slot 2k+1  [w0 .. w15]                   <- read  +-> k   [w0 .. w15 | pad]  <- lane 1 folds
    for k in 0 .. 15, prefetched in registers                 the pad keeps lanes off one bank

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
    empty_view,
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
_WORD_SHIFT = 3
_BITS_PER_BYTE = 8
_BITS_PER_WORD = 64
_ALL_BYTES = np.uint64(constants.MASK64)
_ZERO = np.uint64(0)

_TILE_WORDS = 16
_SLOTS_PER_PASS = WARP_THREADS // _TILE_WORDS
_TILE_PASSES = WARP_THREADS // _SLOTS_PER_PASS
_TILE_STRIDE = _TILE_WORDS + 1
# Shared words of a warp: the tile, then where each of its slots starts.
_STARTS = WARP_THREADS * _TILE_STRIDE
_WARP_WORDS = _STARTS + WARP_THREADS
# In the simulator two warps, so that they could disturb each other.
_BLOCK_THREADS = 2 * WARP_THREADS if SIMULATED else BLOCK_THREADS
_SHARED_BYTES = _BLOCK_THREADS // WARP_THREADS * _WARP_WORDS * _WORD_BYTES

_NOWHERE = np.int64(-1)

_slot_column = device_function(scalar.slot_column)
_bytes_word = device_function(scalar.bytes_word)


@device_function
def _slot_start(slot_indices, entry_idx, num_slots, page_size, row_stride, num_bytes_per_token):
    """First byte of an entry's slot in the source; negative when there is none. int64."""
    if entry_idx >= slot_indices.shape[0]:
        return _NOWHERE
    slot_idx = slot_indices[entry_idx]
    if slot_idx < 0 or slot_idx >= num_slots:
        return _NOWHERE
    column = _slot_column(slot_idx, page_size, num_bytes_per_token)
    return slot_idx // page_size * row_stride + column


@device_function
def _load_word(source_words, source_bytes, start, word_idx, read_bytes):
    """One word of a slot; 0 past its end, and everywhere in a slot that is nowhere."""
    num_bytes = read_bytes - word_idx * _WORD_BYTES
    if start < 0 or num_bytes <= 0:
        return _ZERO
    if source_words.shape[1] == 0:
        return _bytes_word(source_bytes, 0, start + word_idx * _WORD_BYTES, num_bytes)
    word = source_words[0, (start >> _WORD_SHIFT) + word_idx]
    if num_bytes < _WORD_BYTES:
        word &= _ALL_BYTES >> np.uint64(_BITS_PER_WORD - num_bytes * _BITS_PER_BYTE)
    return word


@device_function
def _prefetch_tile(prefetched, starts, lane, source_words, source_bytes, first_word, read_bytes):
    """Read this lane's share of the tile that begins at first_word into registers."""
    for tile_pass in range(_TILE_PASSES):
        start = np.int64(starts[tile_pass * _SLOTS_PER_PASS + lane // _TILE_WORDS])
        word_idx = first_word + lane % _TILE_WORDS
        prefetched[tile_pass] = _load_word(source_words, source_bytes, start, word_idx, read_bytes)


@device_function
def _stage_tile(tile, lane, prefetched):
    """Hand this lane's share of a tile over to the lanes that own its slots."""
    for tile_pass in range(_TILE_PASSES):
        slot_in_warp = tile_pass * _SLOTS_PER_PASS + lane // _TILE_WORDS
        tile[slot_in_warp * _TILE_STRIDE + lane % _TILE_WORDS] = prefetched[tile_pass]


@kernel
def _fold_kernel(
    source_words,
    source_bytes,
    slot_indices,
    source_hashes,
    num_slots,
    page_size,
    row_stride,
    num_bytes_per_token,
    read_bytes,
):
    lane = cuda.threadIdx.x % WARP_THREADS
    warp_words = cuda.threadIdx.x // WARP_THREADS * _WARP_WORDS
    shared = cuda.shared.array(0, types.uint64)
    tile = shared[warp_words : warp_words + _STARTS]
    starts = shared[warp_words + _STARTS : warp_words + _WARP_WORDS]
    prefetched = cuda.local.array(_TILE_PASSES, types.uint64)
    num_words = (read_bytes + _WORD_BYTES - 1) >> _WORD_SHIFT
    # Every thread of a block makes every trip: see `warp_sync`.
    for first_entry in range(
        cuda.blockIdx.x * cuda.blockDim.x, slot_indices.shape[0], cuda.gridsize(1)
    ):
        entry_idx = first_entry + cuda.threadIdx.x
        starts[lane] = np.uint64(
            _slot_start(
                slot_indices, entry_idx, num_slots, page_size, row_stride, num_bytes_per_token
            )
        )
        warp_sync()
        source_hash = _ZERO
        _prefetch_tile(prefetched, starts, lane, source_words, source_bytes, 0, read_bytes)
        for first_word in range(0, num_words, _TILE_WORDS):
            _stage_tile(tile, lane, prefetched)
            warp_sync()
            next_word = first_word + _TILE_WORDS
            _prefetch_tile(
                prefetched, starts, lane, source_words, source_bytes, next_word, read_bytes
            )
            for word_in_tile in range(min(_TILE_WORDS, num_words - first_word)):
                source_hash = splitmix64(source_hash ^ tile[lane * _TILE_STRIDE + word_in_tile])
            warp_sync()
        if entry_idx < slot_indices.shape[0]:
            source_hashes[entry_idx] = source_hash


@kernel
def _combine_kernel(source_hashes, real_kv_hashes):
    for entry_idx in range(cuda.grid(1), source_hashes.shape[0], cuda.gridsize(1)):
        real_kv_hashes[entry_idx] = splitmix64(real_kv_hashes[entry_idx] ^ source_hashes[entry_idx])


KERNELS = (_fold_kernel, _combine_kernel)


def launch_fold(
    source_bytes, slot_indices, source_hashes, page_size, num_bytes_per_token, read_bytes
):
    """Enqueue `fold`; all arrays are on the device."""
    # Words where every slot starts at one, bytes elsewhere: right for any alignment.
    by_word = is_aligned(source_bytes, _WORD_BYTES) and num_bytes_per_token % _WORD_BYTES == 0
    source_words = flat_view(source_bytes, np.uint64) if by_word else empty_view(np.uint64)
    launch(
        _fold_kernel,
        (
            source_words,
            flat_view(source_bytes, np.uint8),
            slot_indices,
            source_hashes,
            source_bytes.shape[0] * page_size,
            page_size,
            source_bytes.strides[0],
            num_bytes_per_token,
            read_bytes,
        ),
        num_items=slot_indices.shape[0],
        block_threads=_BLOCK_THREADS,
        shared_bytes=_SHARED_BYTES,
    )


def launch_combine(source_hashes, real_kv_hashes):
    """Enqueue `combine`; all arrays are on the device."""
    launch(_combine_kernel, (source_hashes, real_kv_hashes), num_items=source_hashes.shape[0])
