"""`verify` on the CPU: reason bits of rows of entries by threads, then the ring in entry order.

An entry reads 24 bytes of its predecessor and 32 of its own record, scattered over the pool: they
are asked for some entries ahead, so that the wait for memory passes beside the arithmetic.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit import constants
from kvaudit.constants import FailReason
from kvaudit.kernels.array_forms import read_only, widened_rows
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.fold.numba_cpu import launch_fold_source
from kvaudit.kernels.hash.numba_cpu import slot_hash
from kvaudit.kernels.prefetch import prefetch_row
from kvaudit.kernels.row_threads import run_rows
from kvaudit.kernels.verify import scalar

_ROWS_PER_TASK = 1 << 16
_PREFETCH_ENTRIES = 32
_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH
_PADDING_SLOT = constants.PADDING_SLOT
_PREDECESSOR_UNREACHABLE = constants.PREDECESSOR_UNREACHABLE
_ZERO = np.uint64(0)
_NO_REASONS = np.uint64(0)
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)

_judged_token = njit(scalar.judged_token)
_record_reasons = njit(scalar.record_reasons)
_store_row = njit(scalar.store_row)


@njit
def append_row(
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
    """Take the next row of the ring, and fill it if there is room."""
    row_idx = violation_write_index[0]
    violation_write_index[0] = row_idx + 1
    _store_row(
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


@njit
def _expected_chain_hash(canary_records, slot_idx, prev_slot_idx):
    """slot_hash of the predecessor; the stored chain hash where there is none to ask."""
    if prev_slot_idx == _PREDECESSOR_UNREACHABLE or prev_slot_idx >= canary_records.shape[0]:
        return canary_records[slot_idx, _PREV_HASH]
    return slot_hash(canary_records, prev_slot_idx)


@compiled
def _judge_rows(
    canary_records,
    slot_indices,
    expected_tokens,
    expected_positions,
    prev_slot_indices,
    real_kv_hashes,
    reason_bits,
    checks_tokens,
    first,
    last,
):
    """Reason bits of entries [first, last); returns how many have any."""
    num_slots = canary_records.shape[0]
    num_violations = 0
    for entry in range(first, last):
        slot_ahead = slot_indices[min(entry + _PREFETCH_ENTRIES, last - 1)]
        if slot_ahead >= 0 and slot_ahead < num_slots:
            prefetch_row(canary_records, slot_ahead)
        slot_idx = slot_indices[entry]
        prev_slot_idx = prev_slot_indices[entry]
        if slot_idx == _PADDING_SLOT:
            reasons = _NO_REASONS
        elif slot_idx < 0 or slot_idx >= num_slots:
            reasons = _SLOT_OUT_OF_RANGE
        else:
            reasons = _record_reasons(
                canary_records[slot_idx, _TOKEN],
                canary_records[slot_idx, _POSITION],
                canary_records[slot_idx, _PREV_HASH],
                canary_records[slot_idx, _REAL_KV_HASH],
                _judged_token(expected_tokens[entry], checks_tokens),
                expected_positions[entry],
                _expected_chain_hash(canary_records, slot_idx, prev_slot_idx),
                real_kv_hashes[entry] if real_kv_hashes.shape[0] else _ZERO,
            )
            if prev_slot_idx >= num_slots:
                reasons |= _PREV_SLOT_OUT_OF_RANGE
        reason_bits[entry] = reasons
        num_violations += reasons != _NO_REASONS
    return num_violations


@compiled
def _append_rows(
    canary_records,
    slot_indices,
    expected_tokens,
    prev_slot_indices,
    reason_bits,
    violation_ring,
    violation_write_index,
    launch_tag,
    checks_tokens,
    num_entries,
):
    """A row of the ring for every entry with bits, in entry order."""
    num_slots = canary_records.shape[0]
    for entry in range(num_entries):
        reasons = np.uint64(reason_bits[entry])
        if reasons == _NO_REASONS:
            continue
        slot_idx = slot_indices[entry]
        token = position = chain_hash = aux = _ZERO
        if slot_idx >= 0 and slot_idx < num_slots:
            token = canary_records[slot_idx, _TOKEN]
            position = canary_records[slot_idx, _POSITION]
            chain_hash = canary_records[slot_idx, _PREV_HASH]
            aux = _expected_chain_hash(canary_records, slot_idx, prev_slot_indices[entry])
        append_row(
            violation_ring,
            violation_write_index,
            launch_tag,
            slot_idx,
            position,
            token,
            _judged_token(expected_tokens[entry], checks_tokens),
            chain_hash,
            aux,
            reasons,
        )


KERNELS = (_judge_rows, _append_rows)
# An audit has no ring, so nothing of it is ever appended.
AUDIT_KERNELS = (_judge_rows,)


def launch_verify(
    canary_records: NDArray[np.uint64],
    verify_slot_indices: NDArray[np.int64],
    verify_expected_tokens: NDArray[np.uint64],
    verify_expected_positions: NDArray[np.uint64],
    verify_prev_slot_indices: NDArray[np.int64],
    verify_num_valid: NDArray[np.int32],
    enable: NDArray[np.int32],
    real_kv_hashes: NDArray[np.uint64],
    reason_bits: NDArray[np.uint32],
    violation_ring: NDArray[np.uint64],
    violation_write_index: NDArray[np.int32],
    slot_run_counter: NDArray[np.int64],
    kernel_run_counter: NDArray[np.int64],
    launch_tag: int,
    check_verify_expected_token: bool,
) -> None:
    """The contract of `kvaudit.kernels.verify`."""
    kernel_run_counter += 1
    if enable[0] == 0:
        return
    num_active = max(0, min(int(verify_num_valid[0]), verify_slot_indices.shape[0]))
    slot_run_counter += num_active
    records = widened_rows(canary_records)
    slots = read_only(verify_slot_indices)
    tokens = read_only(verify_expected_tokens)
    positions = read_only(verify_expected_positions)
    prev_slots = read_only(verify_prev_slot_indices)
    kv_hashes = read_only(real_kv_hashes)
    bits = reason_bits if reason_bits.shape[0] else np.empty(num_active, np.uint32)
    checks_tokens = bool(check_verify_expected_token)
    found: list[int] = []

    def judge_rows(first: int, last: int) -> None:
        found.append(
            _judge_rows(
                records,
                slots,
                tokens,
                positions,
                prev_slots,
                kv_hashes,
                bits,
                checks_tokens,
                first,
                last,
            )
        )

    run_rows(judge_rows, num_active, rows_per_task=_ROWS_PER_TASK)
    if violation_ring.shape[0] == 0:
        # Nothing to store: the rows are only counted, as an int32 counts.
        violation_write_index += np.array([sum(found)]).astype(np.int32)
    elif any(found):
        _append_rows(
            records,
            slots,
            tokens,
            prev_slots,
            bits,
            violation_ring,
            violation_write_index,
            launch_tag,
            checks_tokens,
            num_active,
        )


def launch_verify_source(
    canary_records: NDArray[np.uint64],
    verify_slot_indices: NDArray[np.int64],
    verify_expected_tokens: NDArray[np.uint64],
    verify_expected_positions: NDArray[np.uint64],
    verify_prev_slot_indices: NDArray[np.int64],
    verify_num_valid: NDArray[np.int32],
    enable: NDArray[np.int32],
    real_kv_hashes: NDArray[np.uint64],
    source_bytes: NDArray[np.uint8],
    reason_bits: NDArray[np.uint32],
    violation_ring: NDArray[np.uint64],
    violation_write_index: NDArray[np.int32],
    slot_run_counter: NDArray[np.int64],
    kernel_run_counter: NDArray[np.int64],
    launch_tag: int,
    check_verify_expected_token: bool,
    page_size: int,
    num_bytes_per_token: int,
    read_bytes: int,
) -> None:
    """The contract of `kvaudit.kernels.verify`, with a source."""
    is_first_source = real_kv_hashes.shape[0] == 0
    combined = (
        np.zeros(verify_slot_indices.shape, dtype=np.uint64)
        if is_first_source
        else real_kv_hashes.copy()
    )
    launch_fold_source(
        source_bytes,
        verify_slot_indices,
        verify_num_valid,
        enable,
        combined,
        page_size,
        num_bytes_per_token,
        read_bytes,
        is_first_source,
    )
    launch_verify(
        canary_records,
        verify_slot_indices,
        verify_expected_tokens,
        verify_expected_positions,
        verify_prev_slot_indices,
        verify_num_valid,
        enable,
        combined,
        reason_bits,
        violation_ring,
        violation_write_index,
        slot_run_counter,
        kernel_run_counter,
        launch_tag,
        check_verify_expected_token,
    )
