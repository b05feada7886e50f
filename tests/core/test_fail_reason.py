from __future__ import annotations

from kvaudit.constants import FailReason
from kvaudit.core.fail_reason import REASON_LABELS, reason_labels


def test_every_reason_has_a_label_of_its_own() -> None:
    assert set(REASON_LABELS) == set(FailReason)
    assert len(set(REASON_LABELS.values())) == len(FailReason)


def test_labels_come_in_bit_order() -> None:
    reasons = FailReason.COLUMN_DIGEST_MISMATCH | FailReason.VERIFY_CHAIN_HASH_MISMATCH
    assert reason_labels(reasons) == ("verify_chain_hash", "column_digest")
    assert reason_labels(FailReason(0)) == ()
    assert [int(bit) for bit in REASON_LABELS] == sorted(int(bit) for bit in REASON_LABELS)
