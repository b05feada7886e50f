"""The asserts on one entry, compiled by njit and by cuda.jit alike. All operands are uint64."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import FailReason

_RIGHT = np.uint64(0)
_ONE = np.uint64(1)
_TOKEN = np.uint64(FailReason.WRITE_TOKEN_MISMATCH)
_POSITION = np.uint64(FailReason.WRITE_POSITION_MISMATCH)


def input_reasons(token, position, expected_token, expected_position):
    """Reason bits of the input assert; uint64."""
    reasons = _RIGHT
    if token != expected_token:
        reasons |= _TOKEN
    if position != expected_position:
        reasons |= _POSITION
    return reasons


def chain_reasons(position, previous_position):
    """Reason bits of the chain assert: a position follows the one before it; uint64."""
    return _POSITION if position != previous_position + _ONE else _RIGHT


def next_position(previous_position):
    """previous_position + 1 modulo 2^64; uint64."""
    return previous_position + _ONE
