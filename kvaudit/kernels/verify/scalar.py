"""The judgement of one entry, and its row, compiled by njit and by cuda.jit alike.

All operands are uint64, but for slots and the launch tag: int64.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason

_NO_EXPECTED_TOKEN = np.uint64(constants.NO_EXPECTED_TOKEN & constants.MASK64)
_NO_REASONS = np.uint64(0)
_CHAIN_HASH_MISMATCH = np.uint64(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
_POSITION_MISMATCH = np.uint64(FailReason.VERIFY_POSITION_MISMATCH)
_REAL_KV_HASH_MISMATCH = np.uint64(FailReason.VERIFY_REAL_KV_HASH_MISMATCH)
_TOKEN_MISMATCH = np.uint64(FailReason.VERIFY_TOKEN_MISMATCH)


def judged_token(expected_token, check_verify_expected_token):
    """The token an entry is judged by; -1, as uint64, when it is not."""
    return expected_token if check_verify_expected_token else _NO_EXPECTED_TOKEN


def record_reasons(
    token,
    position,
    prev_hash,
    real_kv_hash,
    expected_token,
    expected_position,
    expected_chain_hash,
    expected_real_kv_hash,
):
    """Reason bits of one record against what it should hold; uint64.

    expected_token is what `judged_token` gave; expected_chain_hash is the stored one where the
    chain is not checked.
    """
    reasons = _NO_REASONS
    if prev_hash != expected_chain_hash:
        reasons |= _CHAIN_HASH_MISMATCH
    if position != expected_position:
        reasons |= _POSITION_MISMATCH
    if real_kv_hash != expected_real_kv_hash:
        reasons |= _REAL_KV_HASH_MISMATCH
    if expected_token != _NO_EXPECTED_TOKEN and token != expected_token:
        reasons |= _TOKEN_MISMATCH
    return reasons


def store_row(
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
):
    """Fill a row of the ring if it is inside; row_idx is what the write index gave."""
    if row_idx < 0 or row_idx >= violation_ring.shape[0]:
        return
    violation_ring[row_idx, constants.VIOLATION_TAG] = np.uint64(launch_tag)
    violation_ring[row_idx, constants.VIOLATION_SLOT] = np.uint64(slot_idx)
    violation_ring[row_idx, constants.VIOLATION_STORED_POSITION] = position
    violation_ring[row_idx, constants.VIOLATION_STORED_TOKEN] = token
    violation_ring[row_idx, constants.VIOLATION_EXPECTED_TOKEN] = expected_token
    violation_ring[row_idx, constants.VIOLATION_STORED_CHAIN_HASH] = chain_hash
    violation_ring[row_idx, constants.VIOLATION_EXPECTED_AUX] = aux
    violation_ring[row_idx, constants.VIOLATION_REASON_BITS] = reasons
