"""`verify` on a CUDA device: one thread an entry.

An entry reads its own record and its predecessor's, 56 scattered bytes, and 32 to 40 bytes of the
plan; a clean launch writes only `reason_bits`. Each row takes an atomic of the whole device, until
a block has seen the ring full: from then on it counts its rows by itself and adds them in the end,
so that a storm of violations does not queue up for one counter.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.cuda_module import (
    atomic_add,
    cuda,
    device_function,
    kernel,
    launch,
    types,
)
from kvaudit.kernels.hash.numba_cuda import slot_hash
from kvaudit.kernels.verify import scalar

_PADDING_SLOT = constants.PADDING_SLOT
_PREDECESSOR_UNREACHABLE = constants.PREDECESSOR_UNREACHABLE
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)
_NO_REASONS = np.uint64(0)
_ZERO = np.uint64(0)
_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH
# What the threads of a block share: how often one found the ring full, and the rows since.
_FOUND_FULL = 0
_PAST_RING = 1
_BLOCK_ROWS = 2

_judged_token = device_function(scalar.judged_token)
_record_reasons = device_function(scalar.record_reasons)
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
def _report(
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
        atomic_add(block_rows, _PAST_RING, 1)
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
def _expected_chain_hash(canary_records, prev_slot_idx, stored_chain_hash):
    """What the record's prev_hash should be: the stored one where there is no chain check."""
    if prev_slot_idx == _PREDECESSOR_UNREACHABLE or prev_slot_idx >= canary_records.shape[0]:
        return stored_chain_hash
    return slot_hash(canary_records, prev_slot_idx)


@kernel
def _verify_kernel(
    canary_records,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    verify_num_valid,
    enable,
    real_kv_hashes,
    reason_bits,
    violation_ring,
    violation_write_index,
    slot_run_counter,
    kernel_run_counter,
    launch_tag,
    check_verify_expected_token,
):
    thread_idx = cuda.grid(1)
    num_active = min(max(verify_num_valid[0], 0), verify_slot_indices.shape[0])
    if enable[0] == 0:
        num_active = 0
    if thread_idx == 0:
        cuda.atomic.add(kernel_run_counter, 0, 1)
        cuda.atomic.add(slot_run_counter, 0, num_active)
    num_slots = canary_records.shape[0]
    block_rows = cuda.shared.array(_BLOCK_ROWS, types.int32)
    if cuda.threadIdx.x < _BLOCK_ROWS:
        block_rows[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for entry_idx in range(thread_idx, num_active, cuda.gridsize(1)):
        at = np.uint64(entry_idx)
        slot_idx = verify_slot_indices[at]
        expected_token = _judged_token(verify_expected_tokens[at], check_verify_expected_token)
        position = token = chain_hash = aux = _ZERO
        if slot_idx == _PADDING_SLOT:
            reasons = _NO_REASONS
        elif slot_idx < 0 or slot_idx >= num_slots:
            reasons = _SLOT_OUT_OF_RANGE
        else:
            prev_slot_idx = verify_prev_slot_indices[at]
            token = canary_records[slot_idx, _TOKEN]
            position = canary_records[slot_idx, _POSITION]
            chain_hash = canary_records[slot_idx, _PREV_HASH]
            aux = _expected_chain_hash(canary_records, prev_slot_idx, chain_hash)
            reasons = _record_reasons(
                token,
                position,
                chain_hash,
                canary_records[slot_idx, _REAL_KV_HASH],
                expected_token,
                verify_expected_positions[at],
                aux,
                real_kv_hashes[at] if real_kv_hashes.shape[0] > 0 else _ZERO,
            )
            if prev_slot_idx >= num_slots:
                reasons |= _PREV_SLOT_OUT_OF_RANGE
        if reason_bits.shape[0] > 0:
            reason_bits[at] = np.uint32(reasons)
        if reasons != _NO_REASONS:
            _report(
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
            )
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and block_rows[_PAST_RING] > 0:
        cuda.atomic.add(violation_write_index, 0, block_rows[_PAST_RING])


KERNELS = (_verify_kernel,)


def launch_verify(
    canary_records,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    verify_num_valid,
    enable,
    real_kv_hashes,
    reason_bits,
    violation_ring,
    violation_write_index,
    slot_run_counter,
    kernel_run_counter,
    launch_tag,
    check_verify_expected_token,
):
    """Enqueue `verify`; all arrays are on the device."""
    launch(
        _verify_kernel,
        (
            canary_records,
            verify_slot_indices,
            verify_expected_tokens,
            verify_expected_positions,
            verify_prev_slot_indices,
            verify_num_valid,
            enable,
            real_kv_hashes,
            reason_bits,
            violation_ring,
            violation_write_index,
            slot_run_counter,
            kernel_run_counter,
            launch_tag,
            check_verify_expected_token,
        ),
        num_items=verify_slot_indices.shape[0],
    )
