"""One row of a violation ring, as the launches leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvaudit.constants import (
    MASK64,
    VIOLATION_EXPECTED_AUX,
    VIOLATION_EXPECTED_TOKEN,
    VIOLATION_REASON_BITS,
    VIOLATION_SLOT,
    VIOLATION_STORED_CHAIN_HASH,
    VIOLATION_STORED_POSITION,
    VIOLATION_STORED_TOKEN,
    VIOLATION_TAG,
    FailReason,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRow:
    """A failed entry in the ring's own terms: what it means depends on its reasons.

    Fields:
        tag: number of the launch tag; an engine's ring may hold one that is none of the twelve.
        slot: the slot, in the numbering of the launch's pool.
        position: verify: stored; write: the position being written.
        token: verify: stored; write: the token being written.
        expected_token: -1 = unchecked.
        chain_hash: verify: stored prev_hash; write: running hash before the slot; unsigned.
        expected_aux: verify: expected prev_hash, unsigned; write: the expected position.
        reasons: what differed.
    """

    tag: int
    slot: int
    position: int
    token: int
    expected_token: int
    chain_hash: int
    expected_aux: int
    reasons: FailReason

    @classmethod
    def of(cls, fields: Sequence[int]) -> RingRow:
        """A row from its eight int64 fields."""
        return cls(
            tag=fields[VIOLATION_TAG],
            slot=fields[VIOLATION_SLOT],
            position=fields[VIOLATION_STORED_POSITION],
            token=fields[VIOLATION_STORED_TOKEN],
            expected_token=fields[VIOLATION_EXPECTED_TOKEN],
            chain_hash=fields[VIOLATION_STORED_CHAIN_HASH] & MASK64,
            expected_aux=fields[VIOLATION_EXPECTED_AUX] & MASK64,
            reasons=FailReason(fields[VIOLATION_REASON_BITS]),
        )
