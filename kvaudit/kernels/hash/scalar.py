"""The mixer and the slot hash on uint64, compiled by njit and by cuda.jit alike.

Every operand must be a uint64: an int64 gives a wrong hash without an error. A compiled function
calls only compiled ones, so a body that needs another takes the compiled one: `make_<body>`.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants

_MULTIPLIER_1 = np.uint64(constants.SPLITMIX64_MULTIPLIER_1)
_MULTIPLIER_2 = np.uint64(constants.SPLITMIX64_MULTIPLIER_2)
_INVERSE_1 = np.uint64(pow(constants.SPLITMIX64_MULTIPLIER_1, -1, constants.MASK64 + 1))
_INVERSE_2 = np.uint64(pow(constants.SPLITMIX64_MULTIPLIER_2, -1, constants.MASK64 + 1))
_SHIFT_1 = np.uint64(constants.SPLITMIX64_SHIFT_1)
_SHIFT_2 = np.uint64(constants.SPLITMIX64_SHIFT_2)
_SHIFT_3 = np.uint64(constants.SPLITMIX64_SHIFT_3)
_CHAIN_ANCHOR = np.uint64(constants.CHAIN_ANCHOR)
_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH


def splitmix64(value):
    """S(value): the splitmix64 finaliser without its increment, so S(0) = 0."""
    mixed = (value ^ (value >> _SHIFT_1)) * _MULTIPLIER_1
    mixed = (mixed ^ (mixed >> _SHIFT_2)) * _MULTIPLIER_2
    return mixed ^ (mixed >> _SHIFT_3)


def inverse_splitmix64(value):
    """The x whose S(x) is value: S is a bijection."""
    # x ^ x>>s is undone by y ^ y>>s ^ y>>2s, since every shift is above 64 / 3.
    mixed = value ^ (value >> _SHIFT_3) ^ (value >> (_SHIFT_3 + _SHIFT_3))
    mixed = mixed * _INVERSE_2
    mixed = mixed ^ (mixed >> _SHIFT_2) ^ (mixed >> (_SHIFT_2 + _SHIFT_2))
    mixed = mixed * _INVERSE_1
    return mixed ^ (mixed >> _SHIFT_1) ^ (mixed >> (_SHIFT_1 + _SHIFT_1))


def make_splitmix64_mix3(compiled_splitmix64):
    """The body of splitmix64_mix3, over a compiled splitmix64."""

    def splitmix64_mix3(first, second, third):
        hashed = compiled_splitmix64(first)
        hashed = compiled_splitmix64(hashed ^ second)
        return compiled_splitmix64(hashed ^ third)

    return splitmix64_mix3


def make_slot_hash(compiled_splitmix64_mix3):
    """The body of slot_hash, over a compiled splitmix64_mix3."""

    def slot_hash(canary_records, slot_idx):
        # slot_idx: int64, below the number of records.
        if slot_idx < 0:
            return _CHAIN_ANCHOR
        return compiled_splitmix64_mix3(
            canary_records[slot_idx, _PREV_HASH],
            canary_records[slot_idx, _TOKEN],
            canary_records[slot_idx, _POSITION],
        )

    return slot_hash
