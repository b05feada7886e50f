"""`write` on a CUDA device: one thread a request, which is a serial chain.

A stamped slot reads 24 to 48 bytes of the batch and writes 32 scattered ones. The KV bytes were
folded before, by all threads: `real_kv_hashes` comes in.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.cuda_module import cuda, device_function, kernel, launch
from kvaudit.kernels.hash.numba_cuda import slot_hash, splitmix64_mix3
from kvaudit.kernels.verify.numba_cuda import append_row
from kvaudit.kernels.write import scalar

_POSITION = constants.RECORD_POSITION
_NO_SEED = np.int64(constants.NO_SEED)
_ZERO = np.uint64(0)
_NO_REASONS = np.uint64(0)
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)

_input_reasons = device_function(scalar.input_reasons)
_chain_reasons = device_function(scalar.chain_reasons)
_next_position = device_function(scalar.next_position)
_store_record = device_function(scalar.store_record)


@device_function
def _chain_seed(violation_ring, violation_write_index, launch_tag, seed_slot_idx, num_slots):
    """The slot that a chain continues from; past the pool it is reported, and the chain a head."""
    if seed_slot_idx < num_slots:
        return seed_slot_idx
    append_row(
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
    return _NO_SEED


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
    asserts_chains,
    canary_records,
    violation_ring,
    violation_write_index,
    launch_tag,
):
    """Stamp the entries of one request, of which there are some; how many were stored."""
    num_slots = canary_records.shape[0]
    running = slot_hash(canary_records, seed_slot_idx)
    asserts_chain = asserts_chains and seed_slot_idx >= 0
    previous = canary_records[seed_slot_idx, _POSITION] if asserts_chain else _ZERO
    num_stored = 0
    for entry_idx in range(first_entry, last_entry):
        slot_idx = out_cache_loc[entry_idx]
        if slot_idx < 0:
            continue
        token = expected_token = input_ids[entry_idx]
        position = expected_position = positions[entry_idx]
        reasons = _NO_REASONS
        if slot_idx >= num_slots:
            reasons = _SLOT_OUT_OF_RANGE
        elif expected_input_tokens.shape[0] > 0:
            expected_token = expected_input_tokens[entry_idx]
            expected_position = expected_input_positions[entry_idx]
            reasons = _input_reasons(token, position, expected_token, expected_position)
        if reasons != _NO_REASONS:
            append_row(
                violation_ring,
                violation_write_index,
                launch_tag,
                slot_idx,
                position,
                token,
                expected_token,
                running,
                expected_position,
                reasons,
            )
        if slot_idx < num_slots:
            reasons = _chain_reasons(position, previous)
            if asserts_chain and reasons != _NO_REASONS:
                append_row(
                    violation_ring,
                    violation_write_index,
                    launch_tag,
                    slot_idx,
                    position,
                    token,
                    token,
                    running,
                    _next_position(previous),
                    reasons,
                )
            real_kv_hash = real_kv_hashes[entry_idx] if real_kv_hashes.shape[0] > 0 else _ZERO
            _store_record(canary_records, slot_idx, token, position, running, real_kv_hash)
            num_stored += 1
        previous = position
        running = splitmix64_mix3(running, token, position)
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
        if first_entry >= last_entry:
            continue
        seed_slot_idx = _chain_seed(
            violation_ring,
            violation_write_index,
            launch_tag,
            write_seed_slot_indices[req_idx],
            canary_records.shape[0],
        )
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
            enable_chain_position_assert[0] != 0,
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
