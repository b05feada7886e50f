"""`write` on the CPU: requests in order, on the calling thread; each store is 32 bytes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.array_forms import read_only, widened_rows
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.hash.numba_cpu import mix3, slot_hash
from kvaudit.kernels.verify.numba_cpu import append_row
from kvaudit.kernels.write import scalar

_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH
_NO_SEED = np.int64(constants.NO_SEED)
_NOTHING = np.uint64(0)
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)

_input_reasons = njit(scalar.input_reasons)
_chain_reasons = njit(scalar.chain_reasons)
_next_position = njit(scalar.next_position)


@njit
def _store(canary_records, slot_idx, token, position, running, real_kv_hash):
    canary_records[slot_idx, _TOKEN] = token
    canary_records[slot_idx, _POSITION] = position
    canary_records[slot_idx, _PREV_HASH] = running
    canary_records[slot_idx, _REAL_KV_HASH] = real_kv_hash


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
    ring,
    write_index,
    tag,
):
    """Stamp all requests; returns the stored entries."""
    num_slots = canary_records.shape[0]
    num_tokens = input_ids.shape[0]
    num_stored = 0
    for request in range(num_requests):
        first = max(0, min(write_offsets[request], num_tokens))
        last = max(0, min(write_offsets[request + 1], num_tokens))
        if first >= last:
            continue
        seed = seed_slot_indices[request]
        if seed >= num_slots:
            bits = _PREV_SLOT_OUT_OF_RANGE
            append_row(
                ring, write_index, tag, seed, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING, bits
            )
            seed = _NO_SEED
        running = slot_hash(canary_records, seed)
        asserts_chain = asserts_chains and seed >= 0
        previous = canary_records[seed, _POSITION] if seed >= 0 else _NOTHING
        for entry in range(first, last):
            slot = out_cache_loc[entry]
            if slot < 0:
                continue
            token = input_ids[entry]
            position = positions[entry]
            if slot >= num_slots:
                bits = _SLOT_OUT_OF_RANGE
                append_row(
                    ring, write_index, tag, slot, position, token, token, running, position, bits
                )
            else:
                if expected_tokens.shape[0]:
                    wanted = expected_tokens[entry]
                    aux = expected_positions[entry]
                    bits = _input_reasons(token, position, wanted, aux)
                    if bits:
                        append_row(
                            ring,
                            write_index,
                            tag,
                            slot,
                            position,
                            token,
                            wanted,
                            running,
                            aux,
                            bits,
                        )
                if asserts_chain:
                    bits = _chain_reasons(position, previous)
                    aux = _next_position(previous)
                    if bits:
                        append_row(
                            ring, write_index, tag, slot, position, token, token, running, aux, bits
                        )
                real_kv_hash = real_kv_hashes[entry] if real_kv_hashes.shape[0] else _NOTHING
                _store(canary_records, slot, token, position, running, real_kv_hash)
                num_stored += 1
            previous = position
            running = mix3(running, token, position)
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
        np.uint64(launch_tag),
    )
