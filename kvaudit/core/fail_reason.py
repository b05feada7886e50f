"""The labels of reason bits, as the JSON report and the text print them (DESIGN.md 5)."""

from __future__ import annotations

from typing import Final

from kvaudit.constants import FailReason

REASON_LABELS: Final[dict[FailReason, str]] = {
    FailReason.VERIFY_CHAIN_HASH_MISMATCH: "verify_chain_hash",
    FailReason.VERIFY_POSITION_MISMATCH: "verify_position",
    FailReason.VERIFY_REAL_KV_HASH_MISMATCH: "verify_real_kv_hash",
    FailReason.WRITE_TOKEN_MISMATCH: "write_token",
    FailReason.WRITE_POSITION_MISMATCH: "write_position",
    FailReason.VERIFY_TOKEN_MISMATCH: "verify_token",
    FailReason.SLOT_OUT_OF_RANGE: "slot_out_of_range",
    FailReason.PREV_SLOT_OUT_OF_RANGE: "prev_slot_out_of_range",
    FailReason.COLUMN_DIGEST_MISMATCH: "column_digest",
}

# What fails where another record stands than is expected: with its own bytes, or without them.
RECORD_REASONS: Final = (
    FailReason.VERIFY_CHAIN_HASH_MISMATCH
    | FailReason.VERIFY_POSITION_MISMATCH
    | FailReason.VERIFY_TOKEN_MISMATCH
)


def reason_labels(reasons: FailReason) -> tuple[str, ...]:
    """The labels of the set bits, in bit order."""
    return tuple(label for bit, label in REASON_LABELS.items() if reasons & bit)
