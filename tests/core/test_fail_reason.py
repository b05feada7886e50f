"""Reason bits and their labels."""

from __future__ import annotations

from kvaudit.constants import FailReason
from kvaudit.core.fail_reason import REASON_LABELS, reason_labels


def test_every_bit_has_a_label_of_its_own() -> None:
    assert set(REASON_LABELS) == set(FailReason)
    assert len(set(REASON_LABELS.values())) == len(FailReason)


def test_labels_stand_in_bit_order() -> None:
    reasons = FailReason.VERIFY_TOKEN_MISMATCH | FailReason.VERIFY_CHAIN_HASH_MISMATCH
    assert reason_labels(reasons) == ("verify_chain_hash", "verify_token")
    assert reason_labels(FailReason(0)) == ()


def test_the_bits_are_the_engines_and_our_own() -> None:
    assert [int(bit) for bit in FailReason] == [1, 2, 4, 8, 16, 32, 1 << 16, 1 << 17, 1 << 18]
