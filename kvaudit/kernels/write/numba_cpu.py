"""`write` on the CPU: requests in order, on the calling thread; each store is 32 bytes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit.kernels.array_forms import read_only, widened_rows
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.hash.numba_cpu import slot_hash, splitmix64_mix3
from kvaudit.kernels.verify.numba_cpu import append_row
from kvaudit.kernels.write import scalar

_write_request = njit(
    scalar.make_write_request(
        slot_hash,
        splitmix64_mix3,
        append_row,
        njit(scalar.make_chain_seed(append_row)),
        njit(scalar.make_assert_input(append_row)),
        njit(scalar.make_assert_chain(append_row)),
        njit(scalar.store_record),
    )
)


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
        num_stored += _write_request(
            first_entry,
            last_entry,
            seed_slot_indices[req_idx],
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
