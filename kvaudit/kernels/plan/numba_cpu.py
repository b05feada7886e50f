"""`plan` on the CPU: one serial pass counts, then threads fill the entries of batch rows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit import constants
from kvaudit.constants import MASK64
from kvaudit.kernels.array_forms import read_only
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.plan import scalar
from kvaudit.kernels.row_threads import run_rows

_BATCH_ROWS_PER_TASK = 8
_NO_EXPECTED_TOKEN = np.uint64(constants.NO_EXPECTED_TOKEN & MASK64)
_NO_PREDECESSOR = np.int64(constants.NO_PREDECESSOR)
_NO_SEED = np.int64(constants.NO_SEED)
_PADDING_REQUEST = constants.PADDING_REQUEST

_num_verify_entries = njit(scalar.num_verify_entries)
_num_write_entries = njit(scalar.num_write_entries)
_is_inside = njit(scalar.is_inside)
_is_mapped = njit(scalar.is_mapped)
_table_slot = njit(scalar.make_table_slot(_is_inside))
_mapped_slot = njit(scalar.make_mapped_slot(_is_mapped))


@njit
def _slot_at(req_to_token, full_to_swa_index_mapping, req_pool_idx, position):
    """The slot at a position, and whether table and map have it: the map may hold any number."""
    slot_idx = _table_slot(req_to_token, req_pool_idx, position)
    is_there = _is_inside(req_to_token, req_pool_idx, position) and _is_mapped(
        full_to_swa_index_mapping, slot_idx
    )
    return _mapped_slot(full_to_swa_index_mapping, slot_idx), is_there


@compiled
def _count_entries(
    req_pool_indices,
    prefix_lens,
    extend_seq_lens,
    req_to_token,
    full_to_swa_index_mapping,
    entry_offsets,
    write_offsets,
    write_seed_slot_indices,
    swa_window_size,
    verify_capacity,
):
    """Offsets of both plans and the seeds.

    Returns whether the entries fit, and a batch row that reads outside a table (-1: none).
    Once more than the capacity are requested, entry_offsets are not continued.
    """
    fits = True
    failed_row = -1
    entry_offsets[0] = 0
    write_offsets[:] = 0
    for row in range(req_pool_indices.shape[0]):
        req_pool_idx = req_pool_indices[row]
        prefix_len = prefix_lens[row]
        num_entries = _num_verify_entries(req_pool_idx, prefix_len, swa_window_size)
        # A difference, since a sum could overflow.
        if fits and num_entries <= verify_capacity - entry_offsets[row]:
            entry_offsets[row + 1] = entry_offsets[row] + num_entries
        else:
            fits = False
        write_offsets[row + 1] = write_offsets[row] + _num_write_entries(
            req_pool_idx, extend_seq_lens[row]
        )
        seed = _NO_SEED
        if req_pool_idx != _PADDING_REQUEST and extend_seq_lens[row] > 0 and prefix_len > 0:
            last_position = min(prefix_len, req_to_token.shape[1]) - 1
            seed, is_there = _slot_at(
                req_to_token, full_to_swa_index_mapping, req_pool_idx, last_position
            )
            if not is_there:
                failed_row = row
        write_seed_slot_indices[row] = seed
    return fits, failed_row


@compiled
def _fill_entries(
    req_pool_indices,
    prefix_lens,
    req_to_token,
    full_to_swa_index_mapping,
    expected_token_pool,
    expected_token_valid_lens,
    entry_offsets,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
    token_offset,
    first,
    last,
):
    """The verify entries of batch rows [first, last); returns a row that reads outside, or -1."""
    failed_row = -1
    for row in range(first, last):
        req_pool_idx = req_pool_indices[row]
        position = prefix_lens[row] - (entry_offsets[row + 1] - entry_offsets[row])
        prev_slot_idx = _NO_PREDECESSOR
        if position > 0 and entry_offsets[row + 1] > entry_offsets[row]:
            prev_slot_idx, is_there = _slot_at(
                req_to_token, full_to_swa_index_mapping, req_pool_idx, position - 1
            )
            if not is_there:
                failed_row = row
        for entry in range(entry_offsets[row], entry_offsets[row + 1]):
            slot_idx, is_there = _slot_at(
                req_to_token, full_to_swa_index_mapping, req_pool_idx, position
            )
            expected_token = _NO_EXPECTED_TOKEN
            token_idx = position + token_offset
            if (
                expected_token_valid_lens.shape[0] > 0
                and token_idx >= 0
                and token_idx < expected_token_valid_lens[row]
            ):
                if _is_inside(expected_token_pool, req_pool_idx, token_idx):
                    expected_token = np.uint64(
                        np.int64(expected_token_pool[req_pool_idx, token_idx])
                    )
                else:
                    is_there = False
            if not is_there:
                failed_row = row
            verify_slot_indices[entry] = slot_idx
            verify_expected_tokens[entry] = expected_token
            verify_expected_positions[entry] = np.uint64(position)
            verify_prev_slot_indices[entry] = prev_slot_idx
            prev_slot_idx = slot_idx
            position += 1
    return failed_row


KERNELS = (_count_entries, _fill_entries)


def _table_left(
    req_pool_idx: int,
    positions: range,
    req_to_token: NDArray[np.int32],
    full_to_swa_index_mapping: NDArray[np.int64],
) -> str:
    """The table that a batch row, which reads these positions, reads outside of."""
    num_requests, max_len = req_to_token.shape
    if not 0 <= req_pool_idx < num_requests or max_len == 0:
        return "req_to_token"
    slots = req_to_token[req_pool_idx, positions.start : positions.stop]
    num_mapped = full_to_swa_index_mapping.shape[0]
    if num_mapped and (slots >= num_mapped).any():
        return "full_to_swa_index_mapping"
    return "req_to_token" if positions.stop > max_len else "req_to_verify_expected_tokens"


def launch_plan(
    req_pool_indices: NDArray[np.int64],
    prefix_lens: NDArray[np.int64],
    extend_seq_lens: NDArray[np.int64],
    req_to_token: NDArray[np.int32],
    full_to_swa_index_mapping: NDArray[np.int64],
    req_to_verify_expected_tokens: NDArray[np.int32],
    req_to_verify_expected_tokens_valid_lens: NDArray[np.int64],
    verify_slot_indices: NDArray[np.int64],
    verify_expected_tokens: NDArray[np.uint64],
    verify_expected_positions: NDArray[np.uint64],
    verify_prev_slot_indices: NDArray[np.int64],
    verify_num_valid: NDArray[np.int32],
    enable: NDArray[np.int32],
    write_offsets: NDArray[np.int64],
    write_seed_slot_indices: NDArray[np.int64],
    write_num_valid_reqs: NDArray[np.int32],
    swa_window_size: int,
    kv_token_id_vs_position_offset: int,
) -> None:
    """The contract of `kvaudit.kernels.plan`."""
    num_rows = req_pool_indices.shape[0]
    verify_capacity = verify_slot_indices.shape[0]
    requests = read_only(req_pool_indices)
    prefixes = read_only(prefix_lens)
    table = read_only(req_to_token)
    swa_map = read_only(full_to_swa_index_mapping)
    token_pool = read_only(req_to_verify_expected_tokens)
    valid_lens = read_only(req_to_verify_expected_tokens_valid_lens)
    entry_offsets = np.empty(num_rows + 1, np.int64)
    fits, failed_row = _count_entries(
        requests,
        prefixes,
        read_only(extend_seq_lens),
        table,
        swa_map,
        entry_offsets,
        write_offsets,
        write_seed_slot_indices,
        swa_window_size,
        verify_capacity,
    )
    enable[0] = fits
    verify_num_valid[0] = entry_offsets[num_rows] if fits else verify_capacity
    write_num_valid_reqs[0] = num_rows
    failed_rows = [failed_row]

    def fill_entries(first: int, last: int) -> None:
        failed_rows.append(
            _fill_entries(
                requests,
                prefixes,
                table,
                swa_map,
                token_pool,
                valid_lens,
                entry_offsets,
                verify_slot_indices,
                verify_expected_tokens,
                verify_expected_positions,
                verify_prev_slot_indices,
                kv_token_id_vs_position_offset,
                first,
                last,
            )
        )

    if fits:
        run_rows(fill_entries, num_rows, rows_per_task=_BATCH_ROWS_PER_TASK)
    outside = [row for row in failed_rows if row >= 0]
    if outside:
        row = min(outside)
        prefix_len = int(prefixes[row])
        first = max(0, prefix_len - swa_window_size - 1) if swa_window_size else 0
        name = _table_left(int(requests[row]), range(first, prefix_len), table, swa_map)
        msg = f"{name}: batch row {row} reads outside it"
        raise ValueError(msg)
