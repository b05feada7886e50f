"""The judgement of one entry, compiled by njit and by cuda.jit alike. All operands are uint64."""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason

_NO_EXPECTED_TOKEN = np.uint64(constants.NO_EXPECTED_TOKEN & constants.MASK64)
_RIGHT = np.uint64(0)
_CHAIN_HASH = np.uint64(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
_POSITION = np.uint64(FailReason.VERIFY_POSITION_MISMATCH)
_REAL_KV_HASH = np.uint64(FailReason.VERIFY_REAL_KV_HASH_MISMATCH)
_TOKEN = np.uint64(FailReason.VERIFY_TOKEN_MISMATCH)


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
    reasons = _RIGHT
    if prev_hash != expected_chain_hash:
        reasons |= _CHAIN_HASH
    if position != expected_position:
        reasons |= _POSITION
    if real_kv_hash != expected_real_kv_hash:
        reasons |= _REAL_KV_HASH
    if expected_token != _NO_EXPECTED_TOKEN and token != expected_token:
        reasons |= _TOKEN
    return reasons
