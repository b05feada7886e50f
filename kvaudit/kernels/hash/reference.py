"""`hash` as DESIGN.md 3 words it, on Python ints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    CHAIN_ANCHOR_INPUT,
    MASK64,
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_TOKEN,
    SPLITMIX64_MULTIPLIER_1,
    SPLITMIX64_MULTIPLIER_2,
    SPLITMIX64_SHIFT_1,
    SPLITMIX64_SHIFT_2,
    SPLITMIX64_SHIFT_3,
)


def splitmix64(value: int) -> int:
    """S(x): `x = (x ^ x>>30) * m1; x = (x ^ x>>27) * m2; x ^ x>>31`, modulo 2^64."""
    x = value & MASK64
    x = ((x ^ (x >> SPLITMIX64_SHIFT_1)) * SPLITMIX64_MULTIPLIER_1) & MASK64
    x = ((x ^ (x >> SPLITMIX64_SHIFT_2)) * SPLITMIX64_MULTIPLIER_2) & MASK64
    return x ^ (x >> SPLITMIX64_SHIFT_3)


def inverse_splitmix64(value: int) -> int:
    """The x whose S(x) is value: each step of S undone, in reverse order."""
    x = _without_shift(value & MASK64, SPLITMIX64_SHIFT_3)
    x = (x * pow(SPLITMIX64_MULTIPLIER_2, -1, MASK64 + 1)) & MASK64
    x = _without_shift(x, SPLITMIX64_SHIFT_2)
    x = (x * pow(SPLITMIX64_MULTIPLIER_1, -1, MASK64 + 1)) & MASK64
    return _without_shift(x, SPLITMIX64_SHIFT_1)


def _without_shift(value: int, shift: int) -> int:
    """The x of which x ^ x>>shift is value: its upper bits first, which give the lower ones."""
    x = value
    for _ in range(64 // shift):
        x = value ^ (x >> shift)
    return x


def splitmix64_mix3(first: int, second: int, third: int) -> int:
    """`h = S(a); h = S(h ^ b); h = S(h ^ c)`; operands of either sign, taken modulo 2^64."""
    h = splitmix64(first)
    h = splitmix64(h ^ (second & MASK64))
    return splitmix64(h ^ (third & MASK64))


def slot_hash(canary_records: NDArray[np.uint64], slot_idx: int) -> int:
    """The link of a record to its successor; S(0xC0FFEE1234567890) of a negative slot."""
    if slot_idx < 0:
        return splitmix64(CHAIN_ANCHOR_INPUT)
    record: NDArray[Any] = canary_records[slot_idx]
    return splitmix64_mix3(
        int(record[RECORD_PREV_HASH]), int(record[RECORD_TOKEN]), int(record[RECORD_POSITION])
    )


def wrapped(value: int, bits: int) -> int:
    """A signed integer of so many bits, modulo 2^bits: how counters count."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def launch_hash(
    canary_records: NDArray[np.uint64],
    slot_indices: NDArray[np.int64],
    slot_hashes: NDArray[np.uint64],
) -> None:
    """The contract of `kvaudit.kernels.hash`."""
    for entry in range(slot_indices.shape[0]):
        slot_hashes[entry] = slot_hash(canary_records, int(slot_indices[entry]))
