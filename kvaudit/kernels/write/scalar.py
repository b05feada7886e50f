"""The asserts on one entry, and its record, compiled by njit and by cuda.jit alike.

All operands are uint64, but for slots: int64. Asserts take no arrays: a compiled call counts the
references to each of them, which is too slow once an entry.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason

_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH
_ONE = np.uint64(1)
_NO_REASONS = np.uint64(0)
_TOKEN_MISMATCH = np.uint64(FailReason.WRITE_TOKEN_MISMATCH)
_POSITION_MISMATCH = np.uint64(FailReason.WRITE_POSITION_MISMATCH)


def input_reasons(token, position, expected_token, expected_position):
    """Reason bits of the input assert; uint64."""
    reasons = _NO_REASONS
    if token != expected_token:
        reasons |= _TOKEN_MISMATCH
    if position != expected_position:
        reasons |= _POSITION_MISMATCH
    return reasons


def chain_reasons(position, previous_position):
    """Reason bits of the chain assert: a position follows the one before it; uint64."""
    return _POSITION_MISMATCH if position != previous_position + _ONE else _NO_REASONS


def next_position(previous_position):
    """previous_position + 1 modulo 2^64; uint64."""
    return previous_position + _ONE


def store_record(canary_records, slot_idx, token, position, prev_hash, real_kv_hash):
    """Fill the four words of a record; slot_idx is inside the pool."""
    canary_records[slot_idx, _TOKEN] = token
    canary_records[slot_idx, _POSITION] = position
    canary_records[slot_idx, _PREV_HASH] = prev_hash
    canary_records[slot_idx, _REAL_KV_HASH] = real_kv_hash
