"""What the threads of a device judge an entry by, and how they append its row.

Each row takes an atomic of the whole device, until a block has seen the ring full: from then on it
counts its rows by itself and adds them in the end, so that a storm of violations does not queue up
for one counter.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.kernels.cuda_module import atomic_add, device_function
from kvaudit.kernels.fold.numba_cuda_slots import bytes_hash, short_hash, short_words
from kvaudit.kernels.hash.numba_cuda import slot_hash, splitmix64
from kvaudit.kernels.verify import scalar

# How the source that a launch folds itself is read.
NO_SOURCE = 0
SHORT = 1
BYTES = 2

_PREDECESSOR_UNREACHABLE = constants.PREDECESSOR_UNREACHABLE
_ZERO = np.uint64(0)
_NO_WORDS = (_ZERO, _ZERO, _ZERO, _ZERO)
# What the threads of a block share: how often one found the ring full, and the rows since.
_FOUND_FULL = 0
PAST_RING = 1
BLOCK_ROWS = 2

_store_row = device_function(scalar.store_row)


@device_function
def append_row(
    violation_ring,
    violation_write_index,
    launch_tag,
    slot_idx,
    position,
    token,
    expected_token,
    chain_hash,
    aux,
    reasons,
):
    """Take the next row of the ring, and fill it if there is room; the row's number."""
    row_idx = atomic_add(violation_write_index, 0, 1)
    _store_row(
        violation_ring,
        row_idx,
        launch_tag,
        slot_idx,
        position,
        token,
        expected_token,
        chain_hash,
        aux,
        reasons,
    )
    return row_idx


@device_function
def report(
    block_rows,
    violation_ring,
    violation_write_index,
    launch_tag,
    slot_idx,
    position,
    token,
    expected_token,
    chain_hash,
    aux,
    reasons,
):
    """Append a row; once the block has found the ring full, only count it."""
    if atomic_add(block_rows, _FOUND_FULL, 0) > 0:
        atomic_add(block_rows, PAST_RING, 1)
        return
    row_idx = append_row(
        violation_ring,
        violation_write_index,
        launch_tag,
        slot_idx,
        position,
        token,
        expected_token,
        chain_hash,
        aux,
        reasons,
    )
    if row_idx >= violation_ring.shape[0]:
        atomic_add(block_rows, _FOUND_FULL, 1)


@device_function
def expected_chain_hash(canary_records, prev_slot_idx, stored_chain_hash):
    """What the record's prev_hash should be: the stored one where there is no chain check."""
    if prev_slot_idx == _PREDECESSOR_UNREACHABLE or prev_slot_idx >= canary_records.shape[0]:
        return stored_chain_hash
    return slot_hash(canary_records, prev_slot_idx)


@device_function
def words_ahead(source_form, source, slot_idx, geometry):
    """What is read of a source before the records are, so that both are on their way together."""
    if source_form == SHORT:
        return short_words(source, slot_idx, geometry)
    return _NO_WORDS


@device_function
def expected_real_kv_hash(source_form, source, words, slot_idx, geometry, hash_before):
    """What the record's real_kv_hash should be; words: those of `words_ahead`."""
    if source_form == SHORT:
        return splitmix64(hash_before ^ short_hash(words, slot_idx, geometry))
    if source_form == BYTES:
        return splitmix64(hash_before ^ bytes_hash(source, slot_idx, geometry))
    return hash_before
