"""The first kernel of `plan` on a CUDA device: one block counts the entries of all rows, and scans."""

from __future__ import annotations

import numpy as np

from kvaudit.kernels.cuda_module import (
    BLOCK_THREADS,
    SIMULATED,
    cuda,
    device_function,
    kernel,
    types,
)
from kvaudit.kernels.plan import scalar

# One block scans all rows: a large one, since its trips follow one another. Two counts a thread.
SCAN_THREADS = BLOCK_THREADS if SIMULATED else 1024
SCAN_BYTES = 2 * SCAN_THREADS * np.dtype(np.int64).itemsize

_ZERO = np.int64(0)

_num_verify_entries = device_function(scalar.num_verify_entries)
_num_write_entries = device_function(scalar.num_write_entries)


@device_function
def _scan_block(verify_counts, write_counts, num_counts, thread_idx):
    """Replace each of the first counts by the sum up to and with it, by all threads of the block."""
    distance = 1
    while distance < num_counts:
        verify_before = verify_counts[thread_idx - distance] if thread_idx >= distance else _ZERO
        write_before = write_counts[thread_idx - distance] if thread_idx >= distance else _ZERO
        cuda.syncthreads()
        verify_counts[thread_idx] += verify_before
        write_counts[thread_idx] += write_before
        cuda.syncthreads()
        distance *= 2


@device_function
def _sum_before(scanned_counts, thread_idx):
    return scanned_counts[thread_idx - 1] if thread_idx > 0 else _ZERO


@kernel
def plan_scan_kernel(
    req_pool_indices,
    prefix_lens,
    extend_seq_lens,
    verify_capacity,
    verify_num_valid,
    enable,
    write_offsets,
    verify_starts,
    write_num_valid_reqs,
    swa_window_size,
):
    """Where each row's verify entries and its write entries begin, and how many there are."""
    if cuda.blockIdx.x > 0:
        return
    shared = cuda.shared.array(0, types.int64)
    verify_counts = shared[:SCAN_THREADS]
    write_counts = shared[SCAN_THREADS:]
    thread_idx = cuda.threadIdx.x
    num_rows = req_pool_indices.shape[0]
    verify_total = _ZERO
    write_total = _ZERO
    for first_row in range(0, num_rows, SCAN_THREADS):
        row_idx = first_row + thread_idx
        num_trip_rows = min(num_rows - first_row, SCAN_THREADS)
        verify_count = _ZERO
        write_count = _ZERO
        if row_idx < num_rows:
            req_pool_idx = req_pool_indices[row_idx]
            verify_count = _num_verify_entries(req_pool_idx, prefix_lens[row_idx], swa_window_size)
            # More than fits is as bad as one more than fits, and its sum cannot overflow.
            verify_count = min(verify_count, verify_capacity + 1)
            write_count = _num_write_entries(req_pool_idx, extend_seq_lens[row_idx])
        verify_counts[thread_idx] = verify_count
        write_counts[thread_idx] = write_count
        cuda.syncthreads()
        _scan_block(verify_counts, write_counts, num_trip_rows, thread_idx)
        if row_idx < num_rows:
            verify_starts[row_idx] = verify_total + _sum_before(verify_counts, thread_idx)
            write_offsets[row_idx] = write_total + _sum_before(write_counts, thread_idx)
        verify_total += verify_counts[num_trip_rows - 1]
        write_total += write_counts[num_trip_rows - 1]
        cuda.syncthreads()
    if thread_idx == 0:
        fits = verify_total <= verify_capacity
        verify_num_valid[0] = verify_total if fits else verify_capacity
        enable[0] = 1 if fits else 0
        write_offsets[num_rows] = write_total
        write_num_valid_reqs[0] = num_rows
