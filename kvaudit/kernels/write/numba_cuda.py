"""`write` on a CUDA device: one thread a request, which is a serial chain.

A stamped slot reads 24 to 48 bytes of the batch and writes 32 scattered ones. The KV bytes were
folded before, by all threads: `real_kv_hashes` comes in.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.cuda_module import cuda, device_function, kernel, launch
from kvaudit.kernels.hash.numba_cuda import mix3, slot_hash
from kvaudit.kernels.verify.numba_cuda import store_row
from kvaudit.kernels.write import scalar

_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)
_RIGHT = np.uint64(0)
_ZERO = np.uint64(0)
_NO_SEED = np.int64(constants.NO_SEED)
_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH

_input_reasons = device_function(scalar.input_reasons)
_chain_reasons = device_function(scalar.chain_reasons)
_next_position = device_function(scalar.next_position)


@device_function
def _append_row(
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
    row_idx = cuda.atomic.add(violation_write_index, 0, 1)
    store_row(
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
def _store_record(canary_records, slot_idx, token, position, running, real_kv_hash):
    canary_records[slot_idx, _TOKEN] = token
    canary_records[slot_idx, _POSITION] = position
    canary_records[slot_idx, _PREV_HASH] = running
    canary_records[slot_idx, _REAL_KV_HASH] = real_kv_hash


@device_function
def _write_request(
    first_entry,
    last_entry,
    seed_slot_idx,
    input_ids,
    positions,
    out_cache_loc,
    expected_input_tokens,
    expected_input_positions,
    real_kv_hashes,
    enable_chain_position_assert,
    canary_records,
    violation_ring,
    violation_write_index,
    launch_tag,
):
    """Stamp the entries of one request; how many were stored."""
    num_slots = canary_records.shape[0]
    running = slot_hash(canary_records, seed_slot_idx)
    asserts_chain = seed_slot_idx >= 0 and enable_chain_position_assert[0] != 0
    previous = canary_records[seed_slot_idx, _POSITION] if asserts_chain else _ZERO
    num_stored = 0
    for entry_idx in range(first_entry, last_entry):
        slot_idx = out_cache_loc[entry_idx]
        if slot_idx < 0:
            continue
        token = input_ids[entry_idx]
        position = positions[entry_idx]
        input_reasons = _RIGHT
        expected_token = token
        expected_position = position
        if slot_idx >= num_slots:
            input_reasons = _SLOT_OUT_OF_RANGE
        elif expected_input_tokens.shape[0] > 0:
            expected_token = expected_input_tokens[entry_idx]
            expected_position = expected_input_positions[entry_idx]
            input_reasons = _input_reasons(token, position, expected_token, expected_position)
        if input_reasons != _RIGHT:
            _append_row(
                violation_ring,
                violation_write_index,
                launch_tag,
                slot_idx,
                position,
                token,
                expected_token,
                running,
                expected_position,
                input_reasons,
            )
        if slot_idx < num_slots:
            chain_reasons = _chain_reasons(position, previous)
            if asserts_chain and chain_reasons != _RIGHT:
                _append_row(
                    violation_ring,
                    violation_write_index,
                    launch_tag,
                    slot_idx,
                    position,
                    token,
                    token,
                    running,
                    _next_position(previous),
                    chain_reasons,
                )
            real_kv_hash = real_kv_hashes[entry_idx] if real_kv_hashes.shape[0] > 0 else _ZERO
            _store_record(canary_records, slot_idx, token, position, running, real_kv_hash)
            num_stored += 1
        previous = position
        running = mix3(running, token, position)
    return num_stored


@kernel
def _write_kernel(
    write_offsets,
    write_seed_slot_indices,
    write_num_valid_reqs,
    input_ids,
    positions,
    out_cache_loc,
    expected_input_tokens,
    expected_input_positions,
    real_kv_hashes,
    enable_chain_position_assert,
    canary_records,
    violation_ring,
    violation_write_index,
    slot_run_counter,
    kernel_run_counter,
    launch_tag,
):
    thread_idx = cuda.grid(1)
    if thread_idx == 0:
        cuda.atomic.add(kernel_run_counter, 0, 1)
    num_tokens = out_cache_loc.shape[0]
    num_reqs = min(max(write_num_valid_reqs[0], 0), write_seed_slot_indices.shape[0])
    for req_idx in range(thread_idx, num_reqs, cuda.gridsize(1)):
        first_entry = min(max(write_offsets[req_idx], 0), num_tokens)
        last_entry = min(max(write_offsets[req_idx + 1], 0), num_tokens)
        seed_slot_idx = write_seed_slot_indices[req_idx]
        if first_entry >= last_entry:
            continue
        if seed_slot_idx >= canary_records.shape[0]:
            _append_row(
                violation_ring,
                violation_write_index,
                launch_tag,
                seed_slot_idx,
                _ZERO,
                _ZERO,
                _ZERO,
                _ZERO,
                _ZERO,
                _PREV_SLOT_OUT_OF_RANGE,
            )
            seed_slot_idx = _NO_SEED
        num_stored = _write_request(
            first_entry,
            last_entry,
            seed_slot_idx,
            input_ids,
            positions,
            out_cache_loc,
            expected_input_tokens,
            expected_input_positions,
            real_kv_hashes,
            enable_chain_position_assert,
            canary_records,
            violation_ring,
            violation_write_index,
            launch_tag,
        )
        cuda.atomic.add(slot_run_counter, 0, num_stored)


def launch_write(
    write_offsets,
    write_seed_slot_indices,
    write_num_valid_reqs,
    input_ids,
    positions,
    out_cache_loc,
    expected_input_tokens,
    expected_input_positions,
    real_kv_hashes,
    enable_chain_position_assert,
    canary_records,
    violation_ring,
    violation_write_index,
    slot_run_counter,
    kernel_run_counter,
    launch_tag,
):
    """Enqueue `write`; all arrays are on the device."""
    launch(
        _write_kernel,
        (
            write_offsets,
            write_seed_slot_indices,
            write_num_valid_reqs,
            input_ids,
            positions,
            out_cache_loc,
            expected_input_tokens,
            expected_input_positions,
            real_kv_hashes,
            enable_chain_position_assert,
            canary_records,
            violation_ring,
            violation_write_index,
            slot_run_counter,
            kernel_run_counter,
            launch_tag,
        ),
        num_items=write_seed_slot_indices.shape[0],
    )
