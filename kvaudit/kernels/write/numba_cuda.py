"""`write` on a CUDA device: one warp a request, whose hashes are a serial chain.

What the chain needs is known ahead but for the running hash. So a warp reads 32 entries at a time,
together and one tile ahead; all its lanes carry the chain through them, each the same; each lane
keeps what the chain was at its own entry; and then they assert and store 32 records together. A
step of the chain costs the latency of three mixes and waits for no memory.

A stamped slot reads 24 to 48 bytes of the batch and writes 32 scattered ones. The KV bytes were
folded before, by all threads: `real_kv_hashes` comes in.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.cuda_module import (
    WARP_THREADS,
    cuda,
    device_function,
    kernel,
    launch,
    types,
    warp_sync,
)
from kvaudit.kernels.hash.numba_cuda import slot_hash, splitmix64_mix3
from kvaudit.kernels.verify.numba_cuda_entries import append_row
from kvaudit.kernels.write import scalar

_POSITION = constants.RECORD_POSITION
_NO_SEED = np.int64(constants.NO_SEED)
_SKIPPED_SLOT = np.int64(constants.SKIP_WRITE)
_ZERO = np.uint64(0)
_NO_REASONS = np.uint64(0)
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)
# Shared words of a tile: its tokens, its positions, its slots.
_POSITIONS = WARP_THREADS
_SLOTS = 2 * WARP_THREADS
_TILE_WORDS = 3 * WARP_THREADS

_input_reasons = device_function(scalar.input_reasons)
_chain_reasons = device_function(scalar.chain_reasons)
_next_position = device_function(scalar.next_position)
_store_record = device_function(scalar.store_record)


@device_function
def _chain_seed(violation_ring, violation_write_index, launch_tag, seed_slot_idx, num_slots):
    """The slot that a chain continues from; past the pool it is reported, and the chain a head."""
    if seed_slot_idx < num_slots:
        return seed_slot_idx
    if cuda.threadIdx.x == 0:
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
def _entry(out_cache_loc, input_ids, positions, entry_idx, last_entry):
    """Slot, token and position of an entry; one past the last is one that is skipped."""
    if entry_idx >= last_entry:
        return _SKIPPED_SLOT, _ZERO, _ZERO
    at = np.uint64(entry_idx)
    return out_cache_loc[at], input_ids[at], positions[at]


@device_function
def _assert_entry(
    entry_idx,
    slot_idx,
    token,
    position,
    running,
    previous,
    expected_input_tokens,
    expected_input_positions,
    asserts_chain,
    num_slots,
    violation_ring,
    violation_write_index,
    launch_tag,
):
    """Append the rows of an entry: its slot or its inputs first, then its place in the chain."""
    expected_token = token
    expected_position = position
    reasons = _NO_REASONS
    if slot_idx >= num_slots:
        reasons = _SLOT_OUT_OF_RANGE
    elif expected_input_tokens.shape[0] > 0:
        expected_token = expected_input_tokens[np.uint64(entry_idx)]
        expected_position = expected_input_positions[np.uint64(entry_idx)]
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
    reasons = _chain_reasons(position, previous)
    if asserts_chain and slot_idx < num_slots and reasons != _NO_REASONS:
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
    lane = cuda.threadIdx.x
    tile = cuda.shared.array(_TILE_WORDS, types.uint64)
    num_slots = canary_records.shape[0]
    running = slot_hash(canary_records, seed_slot_idx)
    asserts_chain = asserts_chains and seed_slot_idx >= 0
    previous = canary_records[seed_slot_idx, _POSITION] if asserts_chain else _ZERO
    num_stored = 0
    next_entry = first_entry + lane
    next_slot, next_token, next_position = _entry(
        out_cache_loc, input_ids, positions, next_entry, last_entry
    )
    for tile_entry in range(first_entry, last_entry, WARP_THREADS):
        entry_idx, slot_idx, token, position = next_entry, next_slot, next_token, next_position
        tile[lane] = token
        tile[_POSITIONS + lane] = position
        tile[_SLOTS + lane] = np.uint64(slot_idx)
        warp_sync()
        next_entry += WARP_THREADS
        next_slot, next_token, next_position = _entry(
            out_cache_loc, input_ids, positions, next_entry, last_entry
        )
        own_running = running
        own_previous = previous
        is_last_of_slot = True
        for step in range(min(WARP_THREADS, last_entry - tile_entry)):
            step_slot = np.int64(tile[np.uint32(_SLOTS + step)])
            step_position = tile[np.uint32(_POSITIONS + step)]
            own_running = running if step <= lane else own_running
            own_previous = previous if step <= lane else own_previous
            is_last_of_slot = is_last_of_slot & ((step <= lane) | (step_slot != slot_idx))
            mixed = splitmix64_mix3(running, tile[np.uint32(step)], step_position)
            running = mixed if step_slot >= 0 else running
            previous = step_position if step_slot >= 0 else previous
            num_stored += (step_slot >= 0) & (step_slot < num_slots)
        warp_sync()
        if slot_idx >= 0:
            _assert_entry(
                entry_idx,
                slot_idx,
                token,
                position,
                own_running,
                own_previous,
                expected_input_tokens,
                expected_input_positions,
                asserts_chain,
                num_slots,
                violation_ring,
                violation_write_index,
                launch_tag,
            )
            # Of entries that share a slot the last one's record stays, as if they came one by one.
            if slot_idx < num_slots and is_last_of_slot:
                has_hash = real_kv_hashes.shape[0] > 0
                real_kv_hash = real_kv_hashes[np.uint64(entry_idx)] if has_hash else _ZERO
                _store_record(canary_records, slot_idx, token, position, own_running, real_kv_hash)
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
    if cuda.grid(1) == 0:
        cuda.atomic.add(kernel_run_counter, 0, 1)
    num_tokens = out_cache_loc.shape[0]
    num_reqs = min(max(write_num_valid_reqs[0], 0), write_seed_slot_indices.shape[0])
    for req_idx in range(cuda.blockIdx.x, num_reqs, cuda.gridDim.x):
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
        if cuda.threadIdx.x == 0:
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
        num_items=WARP_THREADS * write_seed_slot_indices.shape[0],
        block_threads=WARP_THREADS,
    )
