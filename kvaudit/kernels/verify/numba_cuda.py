"""`verify` on a CUDA device: one thread an entry.

An entry reads its own record and its predecessor's, 56 scattered bytes, and 32 to 40 bytes of the
plan; a clean launch writes only `reason_bits`. A source that the launch folds itself is read beside
the records: 16 bytes of a slot cost the memory 64, and a launch of their own as much again.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.cuda_module import cuda, device_function, kernel, launch, types
from kvaudit.kernels.fold.numba_cuda_slots import PAIR_BYTES, flat_source, is_short, num_active
from kvaudit.kernels.verify import scalar
from kvaudit.kernels.verify.numba_cuda_entries import (
    BLOCK_ROWS,
    BYTES,
    NO_SOURCE,
    PAST_RING,
    SHORT,
    expected_chain_hash,
    expected_real_kv_hash,
    report,
    words_ahead,
)

_PADDING_SLOT = constants.PADDING_SLOT
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)
_NO_REASONS = np.uint64(0)
_ZERO = np.uint64(0)
_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH
_NO_GEOMETRY = (0, 0, 0, 0, 0, 0)
# Ten blocks an SM; it takes four more where it may, and then an SM has room for nine.
_MAX_REGISTERS = 48

_judged_token = device_function(scalar.judged_token)
_record_reasons = device_function(scalar.record_reasons)


@device_function
def _verify_entries(
    source_form,
    source,
    geometry,
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
    """Judge this thread's entries; source and geometry are not looked at with NO_SOURCE."""
    thread_idx = cuda.grid(1)
    num_entries = num_active(verify_slot_indices, verify_num_valid, enable)
    if thread_idx == 0:
        cuda.atomic.add(kernel_run_counter, 0, 1)
        cuda.atomic.add(slot_run_counter, 0, num_entries)
    num_slots = canary_records.shape[0]
    block_rows = cuda.shared.array(BLOCK_ROWS, types.int32)
    if cuda.threadIdx.x < BLOCK_ROWS:
        block_rows[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for entry_idx in range(thread_idx, num_entries, cuda.gridsize(1)):
        at = np.uint64(entry_idx)
        slot_idx = verify_slot_indices[at]
        expected_token = _judged_token(verify_expected_tokens[at], check_verify_expected_token)
        words = words_ahead(source_form, source, slot_idx, geometry)
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
            hash_before = real_kv_hashes[at] if real_kv_hashes.shape[0] > 0 else _ZERO
            aux = expected_chain_hash(canary_records, prev_slot_idx, chain_hash)
            reasons = _record_reasons(
                token,
                position,
                chain_hash,
                canary_records[slot_idx, _REAL_KV_HASH],
                expected_token,
                verify_expected_positions[at],
                aux,
                expected_real_kv_hash(source_form, source, words, slot_idx, geometry, hash_before),
            )
            if prev_slot_idx >= num_slots:
                reasons |= _PREV_SLOT_OUT_OF_RANGE
        if reason_bits.shape[0] > 0:
            reason_bits[at] = np.uint32(reasons)
        if reasons != _NO_REASONS:
            report(
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
    if cuda.threadIdx.x == 0 and block_rows[PAST_RING] > 0:
        cuda.atomic.add(violation_write_index, 0, block_rows[PAST_RING])


@kernel(max_registers=_MAX_REGISTERS)
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
    _verify_entries(
        NO_SOURCE,
        canary_records,
        _NO_GEOMETRY,
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
    )


@kernel
def _verify_short_kernel(
    canary_records,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    verify_num_valid,
    enable,
    real_kv_hashes,
    source_words,
    reason_bits,
    violation_ring,
    violation_write_index,
    slot_run_counter,
    kernel_run_counter,
    launch_tag,
    check_verify_expected_token,
    geometry,
):
    _verify_entries(
        SHORT,
        source_words,
        geometry,
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
    )


@kernel
def _verify_bytes_kernel(
    canary_records,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    verify_num_valid,
    enable,
    real_kv_hashes,
    source_bytes,
    reason_bits,
    violation_ring,
    violation_write_index,
    slot_run_counter,
    kernel_run_counter,
    launch_tag,
    check_verify_expected_token,
    geometry,
):
    _verify_entries(
        BYTES,
        source_bytes,
        geometry,
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
    )


KERNELS = (_verify_kernel, _verify_short_kernel, _verify_bytes_kernel)


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


def launch_verify_source(
    canary_records,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    verify_num_valid,
    enable,
    real_kv_hashes,
    source_bytes,
    reason_bits,
    violation_ring,
    violation_write_index,
    slot_run_counter,
    kernel_run_counter,
    launch_tag,
    check_verify_expected_token,
    page_size,
    num_bytes_per_token,
    read_bytes,
):
    """Enqueue `verify` and its last source's fold; all arrays are on the device."""
    layout = (page_size, num_bytes_per_token, read_bytes)
    alignments = (PAIR_BYTES,) if is_short(layout) else ()
    source = flat_source(source_bytes, layout, alignments=alignments)
    launch(
        _verify_short_kernel if source.alignment == PAIR_BYTES else _verify_bytes_kernel,
        (
            canary_records,
            verify_slot_indices,
            verify_expected_tokens,
            verify_expected_positions,
            verify_prev_slot_indices,
            verify_num_valid,
            enable,
            real_kv_hashes,
            source.memory,
            reason_bits,
            violation_ring,
            violation_write_index,
            slot_run_counter,
            kernel_run_counter,
            launch_tag,
            check_verify_expected_token,
            source.geometry,
        ),
        num_items=verify_slot_indices.shape[0],
    )
