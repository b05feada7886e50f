"""The mixer on uint64, compiled by njit and by cuda.jit alike.

Every operand must be a uint64: an int64 gives a wrong hash without an error.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants

_MULTIPLIER_1 = np.uint64(constants.SPLITMIX64_MULTIPLIER_1)
_MULTIPLIER_2 = np.uint64(constants.SPLITMIX64_MULTIPLIER_2)
_SHIFT_1 = np.uint64(constants.SPLITMIX64_SHIFT_1)
_SHIFT_2 = np.uint64(constants.SPLITMIX64_SHIFT_2)
_SHIFT_3 = np.uint64(constants.SPLITMIX64_SHIFT_3)


def splitmix64(value):
    """S(value): the splitmix64 finaliser without its increment, so S(0) = 0."""
    mixed = (value ^ (value >> _SHIFT_1)) * _MULTIPLIER_1
    mixed = (mixed ^ (mixed >> _SHIFT_2)) * _MULTIPLIER_2
    return mixed ^ (mixed >> _SHIFT_3)
