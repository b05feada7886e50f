"""`verify` as DESIGN.md 3 words it, on Python ints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    MASK64,
    NO_EXPECTED_TOKEN,
    PADDING_SLOT,
    PREDECESSOR_UNREACHABLE,
    RECORD_WORDS,
    FailReason,
)
from kvaudit.kernels.fold.reference import launch_fold_source
from kvaudit.kernels.hash.reference import slot_hash, wrapped

_UNCHECKED_TOKEN = NO_EXPECTED_TOKEN & MASK64


def count(counter: NDArray[Any], amount: int) -> None:
    """counter[0] += amount, modulo its width."""
    counter[0] = wrapped(int(counter[0]) + amount, 8 * counter.itemsize)


def append_row(
    violation_ring: NDArray[np.uint64],
    violation_write_index: NDArray[np.int32],
    row: Sequence[int],
) -> None:
    """The row is stored at seq = violation_write_index++ only if 0 <= seq < ring capacity."""
    seq = int(violation_write_index[0])
    count(violation_write_index, 1)
    if 0 <= seq < violation_ring.shape[0]:
        violation_ring[seq] = [field & MASK64 for field in row]


def _chain_check(
    canary_records: NDArray[np.uint64], stored_chain_hash: int, prev_slot: int
) -> tuple[FailReason, int]:
    """Reason bits of the chain check, and the expected chain hash."""
    if prev_slot == PREDECESSOR_UNREACHABLE:
        return FailReason(0), stored_chain_hash
    if prev_slot >= canary_records.shape[0]:
        return FailReason.PREV_SLOT_OUT_OF_RANGE, stored_chain_hash
    expected = slot_hash(canary_records, prev_slot)
    if stored_chain_hash != expected:
        return FailReason.VERIFY_CHAIN_HASH_MISMATCH, expected
    return FailReason(0), expected


def _judge(
    canary_records: NDArray[np.uint64],
    slot: int,
    prev_slot: int,
    expected: tuple[int, int, int],
) -> tuple[FailReason, tuple[int, int, int, int]]:
    """Reason bits of one entry, with stored position, token, chain hash, and the aux of its row.

    expected: token (-1 = unchecked), position, combined hash; all modulo 2^64.
    """
    if not 0 <= slot < canary_records.shape[0]:
        return FailReason.SLOT_OUT_OF_RANGE, (0, 0, 0, 0)
    token, position, chain_hash, real_kv_hash = map(int, canary_records[slot, :RECORD_WORDS])
    expected_token, expected_position, expected_real_kv_hash = expected
    reasons, aux = _chain_check(canary_records, chain_hash, prev_slot)
    if expected_token not in (_UNCHECKED_TOKEN, token):
        reasons |= FailReason.VERIFY_TOKEN_MISMATCH
    if position != expected_position:
        reasons |= FailReason.VERIFY_POSITION_MISMATCH
    if real_kv_hash != expected_real_kv_hash:
        reasons |= FailReason.VERIFY_REAL_KV_HASH_MISMATCH
    return reasons, (position, token, chain_hash, aux)


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
    count(kernel_run_counter, 1)
    if enable[0] == 0:
        return
    capacity = verify_slot_indices.shape[0]
    active = max(0, min(int(verify_num_valid[0]), capacity))
    count(slot_run_counter, active)
    for entry in range(active):
        slot = int(verify_slot_indices[entry])
        reasons = FailReason(0)
        if slot != PADDING_SLOT:
            expected_token = (
                int(verify_expected_tokens[entry])
                if check_verify_expected_token
                else _UNCHECKED_TOKEN
            )
            expected = (
                expected_token,
                int(verify_expected_positions[entry]),
                int(real_kv_hashes[entry]) if real_kv_hashes.shape[0] else 0,
            )
            reasons, (position, token, chain_hash, aux) = _judge(
                canary_records, slot, int(verify_prev_slot_indices[entry]), expected
            )
            if reasons:
                append_row(
                    violation_ring,
                    violation_write_index,
                    (launch_tag, slot, position, token, expected_token, chain_hash, aux, reasons),
                )
        if reason_bits.shape[0]:
            reason_bits[entry] = int(reasons)


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
