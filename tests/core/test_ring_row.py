from __future__ import annotations

from kvaudit.constants import FailReason
from kvaudit.core.ring_row import RingRow


def test_hashes_are_unsigned_and_the_other_fields_are_as_stored() -> None:
    row = RingRow.of([0, 4, -1, 22, -1, -2, -(1 << 63), 3])
    assert (row.tag, row.slot, row.position, row.token, row.expected_token) == (0, 4, -1, 22, -1)
    assert row.chain_hash == 0xFFFF_FFFF_FFFF_FFFE
    assert row.expected_aux == 1 << 63
    assert row.reasons == (
        FailReason.VERIFY_CHAIN_HASH_MISMATCH | FailReason.VERIFY_POSITION_MISMATCH
    )


def test_a_tag_that_is_none_of_the_twelve_is_kept() -> None:
    assert RingRow.of([99, 1, 0, 0, 0, 0, 0, 1]).tag == 99
