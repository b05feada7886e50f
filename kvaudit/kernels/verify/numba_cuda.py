"""`verify` on a CUDA device: one thread an entry.

An entry reads its own record and its predecessor's, 56 scattered bytes, and 32 to 40 bytes of the
plan; rows are appended with one atomic each, so a clean launch writes only `reason_bits`.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.cuda_module import atomic_add, cuda, device_function, kernel, launch
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
    """Take the next row of the ring, and fill it if there is room."""
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
    for entry_idx in range(thread_idx, num_active, cuda.gridsize(1)):
        slot_idx = verify_slot_indices[entry_idx]
        expected_token = _judged_token(
            verify_expected_tokens[entry_idx], check_verify_expected_token
        )
        position = token = chain_hash = aux = _ZERO
        if slot_idx == _PADDING_SLOT:
            reasons = _NO_REASONS
        elif slot_idx < 0 or slot_idx >= num_slots:
            reasons = _SLOT_OUT_OF_RANGE
        else:
            prev_slot_idx = verify_prev_slot_indices[entry_idx]
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
                verify_expected_positions[entry_idx],
                aux,
                real_kv_hashes[entry_idx] if real_kv_hashes.shape[0] > 0 else _ZERO,
            )
            if prev_slot_idx >= num_slots:
                reasons |= _PREV_SLOT_OUT_OF_RANGE
        if reason_bits.shape[0] > 0:
            reason_bits[entry_idx] = np.uint32(reasons)
        if reasons != _NO_REASONS:
            append_row(
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
