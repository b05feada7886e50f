"""`fold` on a CUDA device: every KV byte is read once, and coalesced where slots are long.

    all sizes whole pairs of words    slots of up to 32 bytes: one thread a slot (`short_hash`)
                                      longer ones: a warp's slots together (`numba_cuda_tiles`)
    whole words                       a warp's slots together, a word a copy
    slots in pieces                   the same, a piece after the other
    anything else                     one thread a slot, byte by byte

The counts are read by the kernels: the host never waits for them, and a thread past them is done.

`combine`: one thread an entry, 24 bytes of traffic each. Combined by the fold itself, an entry reads
and writes its 8 bytes once a source.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kvaudit.kernels.cuda_module import cuda, kernel, launch, types
from kvaudit.kernels.fold.numba_cuda_slots import (
    COMBINED,
    FIRST_COMBINED,
    PAIR_BYTES,
    STORED,
    WORD_BYTES,
    bits_of,
    bytes_hash,
    flat_source,
    is_short,
    num_active,
    short_hash,
    short_words,
    store_hash,
)
from kvaudit.kernels.fold.numba_cuda_tiles import (
    TILE_BLOCK_THREADS,
    TILE_SHARED_BYTES,
    fold_pairs_kernel,
    fold_piece_pairs_kernel,
    fold_piece_words_kernel,
    fold_words_kernel,
)
from kvaudit.kernels.hash.numba_cuda import splitmix64


@kernel
def _fold_short_kernel(source_words, slot_indices, num_valid, enable, hashes, outcome, geometry):
    num_entries = num_active(slot_indices, num_valid, enable)
    for entry_idx in range(cuda.grid(1), num_entries, cuda.gridsize(1)):
        slot_idx = slot_indices[np.uint64(entry_idx)]
        source_hash = short_hash(short_words(source_words, slot_idx, geometry), slot_idx, geometry)
        store_hash(hashes, entry_idx, source_hash, outcome)


@kernel
def _fold_bytes_kernel(source_bytes, slot_indices, num_valid, enable, hashes, outcome, geometry):
    num_entries = num_active(slot_indices, num_valid, enable)
    for entry_idx in range(cuda.grid(1), num_entries, cuda.gridsize(1)):
        source_hash = bytes_hash(source_bytes, slot_indices[np.uint64(entry_idx)], geometry)
        store_hash(hashes, entry_idx, source_hash, outcome)


@kernel
def _combine_kernel(source_hashes, real_kv_hashes):
    for entry_idx in range(cuda.grid(1), source_hashes.shape[0], cuda.gridsize(1)):
        real_kv_hashes[entry_idx] = splitmix64(real_kv_hashes[entry_idx] ^ source_hashes[entry_idx])


@kernel
def _count_written_kernel(write_offsets, write_num_valid_reqs, num_valid, num_tokens):
    # The first block looks at all requests; a grid has more of them, which have nothing to do.
    last_entry = cuda.shared.array(1, types.int64)
    if cuda.threadIdx.x == 0:
        last_entry[0] = 0
    cuda.syncthreads()
    if cuda.blockIdx.x == 0:
        num_reqs = min(max(write_num_valid_reqs[0], 0), write_offsets.shape[0] - 1)
        for req_idx in range(cuda.threadIdx.x, num_reqs, cuda.blockDim.x):
            cuda.atomic.max(last_entry, 0, write_offsets[req_idx + 1])
    cuda.syncthreads()
    if cuda.grid(1) == 0:
        num_valid[0] = min(last_entry[0], num_tokens)


KERNELS = (
    fold_pairs_kernel,
    fold_words_kernel,
    fold_piece_pairs_kernel,
    fold_piece_words_kernel,
    _fold_short_kernel,
    _fold_bytes_kernel,
    _combine_kernel,
    _count_written_kernel,
)


@cache
def _uncounted():
    """What stands for a count where there is none, shape [0], int32; made once, as it costs time."""
    return cuda.device_array(0, dtype=np.int32)


def launch_fold(
    source_bytes, slot_indices, source_hashes, page_size, num_bytes_per_token, read_bytes
):
    """Enqueue `fold`; all arrays are on the device."""
    entries = (slot_indices, _uncounted(), _uncounted(), source_hashes, STORED)
    _launch_fold(source_bytes, (page_size, num_bytes_per_token, read_bytes), entries)


def launch_fold_source(
    source_bytes,
    slot_indices,
    num_valid,
    enable,
    real_kv_hashes,
    page_size,
    num_bytes_per_token,
    read_bytes,
    is_first_source,
):
    """Enqueue the fold and combination of a source; all arrays are on the device."""
    outcome = FIRST_COMBINED if is_first_source else COMBINED
    entries = (slot_indices, num_valid, enable, real_kv_hashes, outcome)
    _launch_fold(source_bytes, (page_size, num_bytes_per_token, read_bytes), entries)


def _launch_fold(source_bytes, layout, entries):
    """Enqueue the kernel that suits a source; entries: what kernels take between it and geometry."""
    source = flat_source(source_bytes, layout, alignments=(PAIR_BYTES, WORD_BYTES))
    arguments = (source.memory, *entries, source.geometry)
    num_items = entries[0].shape[0]
    if source.alignment < WORD_BYTES:
        launch(_fold_bytes_kernel, arguments, num_items=num_items)
    elif source.alignment == PAIR_BYTES and is_short(layout):
        launch(_fold_short_kernel, arguments, num_items=num_items)
    else:
        launch(
            fold_pairs_kernel if source.alignment == PAIR_BYTES else fold_words_kernel,
            arguments,
            num_items=num_items,
            block_threads=TILE_BLOCK_THREADS,
            shared_bytes=TILE_SHARED_BYTES,
        )


def launch_fold_pieces(
    source_bytes, slot_indices, source_hashes, num_pieces, piece_stride, piece_bytes
):
    """Enqueue the fold of slots in pieces; all arrays are on the device."""
    # Rows are pages of one slot, and their slot stride that of the pieces.
    layout = (1, piece_stride, num_pieces * piece_bytes)
    by_pairs = (PAIR_BYTES,) if piece_bytes % PAIR_BYTES == 0 else ()
    source = flat_source(source_bytes, layout, alignments=(*by_pairs, WORD_BYTES))
    entries = (slot_indices, _uncounted(), _uncounted(), source_hashes, STORED)
    num_items = slot_indices.shape[0]
    if source.alignment < WORD_BYTES:
        # There is nothing to read.
        launch(_fold_bytes_kernel, (source.memory, *entries, source.geometry), num_items=num_items)
        return
    piece_words = piece_bytes // WORD_BYTES
    launch(
        fold_piece_pairs_kernel if source.alignment == PAIR_BYTES else fold_piece_words_kernel,
        (source.memory, *entries, source.geometry, piece_words, bits_of(piece_words)),
        num_items=num_items,
        block_threads=TILE_BLOCK_THREADS,
        shared_bytes=TILE_SHARED_BYTES,
    )


def launch_combine(source_hashes, real_kv_hashes):
    """Enqueue `combine`; all arrays are on the device."""
    launch(_combine_kernel, (source_hashes, real_kv_hashes), num_items=source_hashes.shape[0])


def launch_count_written(write_offsets, write_num_valid_reqs, num_valid, num_tokens):
    """Enqueue the count of a write's entries; all arrays are on the device."""
    launch(
        _count_written_kernel,
        (write_offsets, write_num_valid_reqs, num_valid, num_tokens),
        num_items=1,
    )
