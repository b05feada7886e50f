from __future__ import annotations

import json

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.violation import Violation, hash_label


def row(**changes) -> Violation:
    fields = {
        "tag": LaunchTag.TAIL_K_FULL,
        "pool": "FULL",
        "rank": None,
        "entry": 0,
        "slot": 2,
        "reasons": FailReason.VERIFY_TOKEN_MISMATCH,
    }
    return Violation(**{**fields, **changes})


def test_hashes_are_16_digits_of_an_unsigned_number() -> None:
    assert hash_label(0) == "0x0000000000000000"
    assert hash_label(-1) == "0xffffffffffffffff"
    assert hash_label(0xDE7FAE23A9A1B716) == "0xde7fae23a9a1b716"
    assert hash_label(None) is None


def test_rows_sort_by_tag_slot_position_and_entry_with_column_rows_last() -> None:
    rows = [
        row(tag=None, entry=None, slot=0),
        row(slot=3),
        row(slot=2, position=5),
        row(slot=2, position=4, entry=9),
        row(slot=2, position=4, entry=1),
        row(tag=LaunchTag.HEAD_K_FULL, slot=9),
    ]
    order = [rows.index(item) for item in sorted(rows, key=Violation.sort_key)]
    assert order == [5, 4, 3, 2, 1, 0]


def test_a_row_is_a_document() -> None:
    document = json.loads(json.dumps(row(chain_hash=1, columns=("kv.v.17",)).to_dict()))
    assert document["tag"] == "TAIL_K_FULL"
    assert document["chain_hash"] == "0x0000000000000001"
    assert document["expected_chain_hash"] is None
    assert document["columns"] == ["kv.v.17"]
    assert document["reasons"] == ["verify_token"]
    assert len(document) == 17
