"""`plan` on a CUDA device: count and scan in one block, then the entries, then the seeds.

Three launches and no memory of its own: until the last one, `write_seed_slot_indices` holds where
each row's verify entries begin. A block finds the rows of its next entries by binary search there,
and each entry its row among them. An entry reads 8 scattered bytes of the table (28 with map and
tokens) and writes 32.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.kernels.cuda_module import (
    BLOCK_THREADS,
    SIMULATED,
    cuda,
    device_function,
    kernel,
    launch,
    types,
)
from kvaudit.kernels.plan import scalar
from kvaudit.kernels.plan.numba_cuda_scan import SCAN_BYTES, SCAN_THREADS, plan_scan_kernel

_NO_PREDECESSOR = np.int64(constants.NO_PREDECESSOR)
_NO_SEED = np.int64(constants.NO_SEED)
_NO_EXPECTED_TOKEN = np.int64(constants.NO_EXPECTED_TOKEN)
_OUT_OF_TABLE_SLOT = np.int64(constants.OUT_OF_TABLE_SLOT)
_PADDING_REQUEST = constants.PADDING_REQUEST
# Valid tokens of every row where none are given: fewer than any index.
_NO_TOKENS = np.int64(-1)
# Entries that share a search for their rows: several a thread, so that the search costs little.
_ENTRIES_PER_THREAD = 2 if SIMULATED else 8
_TILE_ENTRIES = _ENTRIES_PER_THREAD * BLOCK_THREADS
# The rows of a tile's first and of its last entry.
_TILE_ROWS = 2

_num_verify_entries = device_function(scalar.num_verify_entries)
_is_inside = device_function(scalar.is_inside)
_is_mapped = device_function(scalar.is_mapped)
_table_slot = device_function(scalar.make_table_slot(_is_inside))
_mapped_slot = device_function(scalar.make_mapped_slot(_is_mapped))


@device_function
def _row_of_entry(row_starts, first_row, end_row, entry_idx):
    """The last of these rows that begins at or before an entry.

    Rows without entries begin where the next one does.
    """
    low = first_row
    high = end_row
    while high - low > 1:
        middle = (low + high) // 2
        if row_starts[np.uint64(middle)] <= entry_idx:
            low = middle
        else:
            high = middle
    return low


@device_function
def _row_facts(
    row_idx,
    req_pool_indices,
    prefix_lens,
    req_to_verify_expected_tokens_valid_lens,
    verify_starts,
    swa_window_size,
):
    """A row's request, by how much positions exceed entries, and its valid tokens; int64."""
    row = np.uint64(row_idx)
    req_pool_idx = req_pool_indices[row]
    prefix_len = prefix_lens[row]
    row_entries = _num_verify_entries(req_pool_idx, prefix_len, swa_window_size)
    valid_len = _NO_TOKENS
    if req_to_verify_expected_tokens_valid_lens.shape[0] > 0:
        valid_len = req_to_verify_expected_tokens_valid_lens[row]
    return req_pool_idx, prefix_len - row_entries - verify_starts[row], valid_len


@device_function
def _verify_entry(
    req_pool_idx,
    position,
    valid_len,
    req_to_token,
    full_to_swa_index_mapping,
    req_to_verify_expected_tokens,
    kv_token_id_vs_position_offset,
):
    """Slot, predecessor and expected token at a position of a row; int64."""
    slot_idx = _mapped_slot(
        full_to_swa_index_mapping, _table_slot(req_to_token, req_pool_idx, position)
    )
    prev_slot_idx = _NO_PREDECESSOR
    if position > 0:
        prev_slot_idx = _mapped_slot(
            full_to_swa_index_mapping, _table_slot(req_to_token, req_pool_idx, position - 1)
        )
    expected_token = _NO_EXPECTED_TOKEN
    token_idx = position + kv_token_id_vs_position_offset
    if token_idx >= 0 and token_idx < valid_len:
        if _is_inside(req_to_verify_expected_tokens, req_pool_idx, token_idx):
            expected_token = np.int64(req_to_verify_expected_tokens[req_pool_idx, token_idx])
        else:
            slot_idx = _OUT_OF_TABLE_SLOT
    return slot_idx, prev_slot_idx, expected_token


@kernel
def _plan_fill_kernel(
    req_pool_indices,
    prefix_lens,
    req_to_token,
    full_to_swa_index_mapping,
    req_to_verify_expected_tokens,
    req_to_verify_expected_tokens_valid_lens,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    verify_num_valid,
    enable,
    verify_starts,
    swa_window_size,
    kv_token_id_vs_position_offset,
):
    thread_idx = cuda.threadIdx.x
    tile_rows = cuda.shared.array(_TILE_ROWS, types.int64)
    num_entries = verify_num_valid[0] if enable[0] != 0 else 0
    first_tile_entry = np.int64(cuda.blockIdx.x) * _TILE_ENTRIES
    # Every thread of a block makes every trip: they wait for each other.
    for first_entry in range(first_tile_entry, num_entries, cuda.gridDim.x * _TILE_ENTRIES):
        if thread_idx < _TILE_ROWS:
            border = first_entry if thread_idx == 0 else first_entry + _TILE_ENTRIES - 1
            tile_rows[thread_idx] = _row_of_entry(
                verify_starts, 0, req_pool_indices.shape[0], min(border, num_entries - 1)
            )
        cuda.syncthreads()
        first_row, last_row = tile_rows[0], tile_rows[1]
        last_entry = min(first_entry + _TILE_ENTRIES, num_entries)
        # A tile of one row, as most are of long ones, looks at it once.
        req_pool_idx, to_position, valid_len = _row_facts(
            first_row,
            req_pool_indices,
            prefix_lens,
            req_to_verify_expected_tokens_valid_lens,
            verify_starts,
            swa_window_size,
        )
        for entry_idx in range(first_entry + thread_idx, last_entry, BLOCK_THREADS):
            if last_row > first_row:
                req_pool_idx, to_position, valid_len = _row_facts(
                    _row_of_entry(verify_starts, first_row, last_row + 1, entry_idx),
                    req_pool_indices,
                    prefix_lens,
                    req_to_verify_expected_tokens_valid_lens,
                    verify_starts,
                    swa_window_size,
                )
            position = entry_idx + to_position
            slot_idx, prev_slot_idx, expected_token = _verify_entry(
                req_pool_idx,
                position,
                valid_len,
                req_to_token,
                full_to_swa_index_mapping,
                req_to_verify_expected_tokens,
                kv_token_id_vs_position_offset,
            )
            at = np.uint64(entry_idx)
            verify_slot_indices[at] = slot_idx
            verify_prev_slot_indices[at] = prev_slot_idx
            verify_expected_tokens[at] = np.uint64(expected_token)
            verify_expected_positions[at] = np.uint64(position)
        cuda.syncthreads()


@kernel
def _plan_seed_kernel(
    req_pool_indices,
    prefix_lens,
    extend_seq_lens,
    req_to_token,
    full_to_swa_index_mapping,
    write_offsets,
    write_seed_slot_indices,
):
    num_rows = req_pool_indices.shape[0]
    for row_idx in range(cuda.grid(1), write_offsets.shape[0], cuda.gridsize(1)):
        if row_idx > num_rows:
            write_offsets[row_idx] = 0
        elif row_idx < num_rows:
            req_pool_idx = req_pool_indices[row_idx]
            prefix_len = prefix_lens[row_idx]
            seed_slot_idx = _NO_SEED
            if req_pool_idx != _PADDING_REQUEST and extend_seq_lens[row_idx] > 0 and prefix_len > 0:
                position = min(prefix_len, req_to_token.shape[1]) - 1
                seed_slot_idx = _mapped_slot(
                    full_to_swa_index_mapping, _table_slot(req_to_token, req_pool_idx, position)
                )
            write_seed_slot_indices[row_idx] = seed_slot_idx


def launch_plan(
    req_pool_indices,
    prefix_lens,
    extend_seq_lens,
    req_to_token,
    full_to_swa_index_mapping,
    req_to_verify_expected_tokens,
    req_to_verify_expected_tokens_valid_lens,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    verify_num_valid,
    enable,
    write_offsets,
    write_seed_slot_indices,
    write_num_valid_reqs,
    swa_window_size,
    kv_token_id_vs_position_offset,
):
    """Enqueue `plan`; all arrays are on the device."""
    verify_starts = write_seed_slot_indices
    launch(
        plan_scan_kernel,
        (
            req_pool_indices,
            prefix_lens,
            extend_seq_lens,
            verify_slot_indices.shape[0],
            verify_num_valid,
            enable,
            write_offsets,
            verify_starts,
            write_num_valid_reqs,
            swa_window_size,
        ),
        num_items=1,
        block_threads=SCAN_THREADS,
        shared_bytes=SCAN_BYTES,
    )
    launch(
        _plan_fill_kernel,
        (
            req_pool_indices,
            prefix_lens,
            req_to_token,
            full_to_swa_index_mapping,
            req_to_verify_expected_tokens,
            req_to_verify_expected_tokens_valid_lens,
            verify_slot_indices,
            verify_expected_tokens,
            verify_expected_positions,
            verify_prev_slot_indices,
            verify_num_valid,
            enable,
            verify_starts,
            swa_window_size,
            kv_token_id_vs_position_offset,
        ),
        num_items=-(-verify_slot_indices.shape[0] // _ENTRIES_PER_THREAD),
    )
    launch(
        _plan_seed_kernel,
        (
            req_pool_indices,
            prefix_lens,
            extend_seq_lens,
            req_to_token,
            full_to_swa_index_mapping,
            write_offsets,
            write_seed_slot_indices,
        ),
        num_items=write_offsets.shape[0],
    )
