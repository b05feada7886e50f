"""`write` on the CPU: requests in order, on the calling thread; each store is 32 bytes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.array_forms import read_only, widened_rows
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.hash.numba_cpu import slot_hash, splitmix64_mix3
from kvaudit.kernels.verify.numba_cpu import append_row
from kvaudit.kernels.write import scalar

_POSITION = constants.RECORD_POSITION
_NO_SEED = np.int64(constants.NO_SEED)
_ZERO = np.uint64(0)
_NO_REASONS = np.uint64(0)
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)

_input_reasons = njit(scalar.input_reasons)
_chain_reasons = njit(scalar.chain_reasons)
_next_position = njit(scalar.next_position)
_store_record = njit(scalar.store_record)


@njit
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


@njit
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


@compiled
def _write_requests(
    write_offsets,
    seed_slot_indices,
    num_requests,
    input_ids,
    positions,
    out_cache_loc,
    expected_tokens,
    expected_positions,
    real_kv_hashes,
    asserts_chains,
    canary_records,
    violation_ring,
    violation_write_index,
    launch_tag,
):
    """Stamp all requests; returns the stored entries."""
    num_tokens = input_ids.shape[0]
    num_stored = 0
    for req_idx in range(num_requests):
        first_entry = max(0, min(write_offsets[req_idx], num_tokens))
        last_entry = max(0, min(write_offsets[req_idx + 1], num_tokens))
        if first_entry >= last_entry:
            continue
        seed_slot_idx = _chain_seed(
            violation_ring,
            violation_write_index,
            launch_tag,
            seed_slot_indices[req_idx],
            canary_records.shape[0],
        )
        num_stored += _write_request(
            first_entry,
            last_entry,
            seed_slot_idx,
            input_ids,
            positions,
            out_cache_loc,
            expected_tokens,
            expected_positions,
            real_kv_hashes,
            asserts_chains,
            canary_records,
            violation_ring,
            violation_write_index,
            launch_tag,
        )
    return num_stored


KERNELS = (_write_requests,)


def launch_write(
    write_offsets: NDArray[np.int64],
    write_seed_slot_indices: NDArray[np.int64],
    write_num_valid_reqs: NDArray[np.int32],
    input_ids: NDArray[np.uint64],
    positions: NDArray[np.uint64],
    out_cache_loc: NDArray[np.int64],
    expected_input_tokens: NDArray[np.uint64],
    expected_input_positions: NDArray[np.uint64],
    real_kv_hashes: NDArray[np.uint64],
    enable_chain_position_assert: NDArray[np.int32],
    canary_records: NDArray[np.uint64],
    violation_ring: NDArray[np.uint64],
    violation_write_index: NDArray[np.int32],
    slot_run_counter: NDArray[np.int64],
    kernel_run_counter: NDArray[np.int64],
    launch_tag: int,
) -> None:
    """The contract of `kvaudit.kernels.write`."""
    kernel_run_counter += 1
    slot_run_counter += _write_requests(
        read_only(write_offsets),
        read_only(write_seed_slot_indices),
        max(0, min(int(write_num_valid_reqs[0]), write_seed_slot_indices.shape[0])),
        read_only(input_ids),
        read_only(positions),
        read_only(out_cache_loc),
        read_only(expected_input_tokens),
        read_only(expected_input_positions),
        read_only(real_kv_hashes),
        bool(enable_chain_position_assert[0] != 0),
        widened_rows(canary_records, writeable=True),
        violation_ring,
        violation_write_index,
        launch_tag,
    )
