"""`write` on a CUDA device: one thread a request, which is a serial chain.

A stamped slot reads 24 to 48 bytes of the batch and writes 32 scattered ones. The KV bytes were
folded before, by all threads: `real_kv_hashes` comes in.
"""

from __future__ import annotations

from kvaudit.kernels.cuda_module import cuda, device_function, kernel, launch
from kvaudit.kernels.hash.numba_cuda import slot_hash, splitmix64_mix3
from kvaudit.kernels.verify.numba_cuda import append_row
from kvaudit.kernels.write import scalar

_write_request = device_function(
    scalar.make_write_request(
        slot_hash,
        splitmix64_mix3,
        append_row,
        device_function(scalar.make_chain_seed(append_row)),
        device_function(scalar.make_assert_input(append_row)),
        device_function(scalar.make_assert_chain(append_row)),
        device_function(scalar.store_record),
    )
)


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
        num_stored = _write_request(
            first_entry,
            last_entry,
            write_seed_slot_indices[req_idx],
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
