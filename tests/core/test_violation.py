"""Rows and how they sort."""

from __future__ import annotations

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation, hash_label


def _row(tag: LaunchTag | None, slot: int, *, position: int | None = 0, entry: int | None = 0):
    return Violation(
        tag=tag,
        key=PoolKey(instance="decode-0", rank=3),
        entry=entry,
        slot=slot,
        position=position,
        reasons=FailReason.VERIFY_POSITION_MISMATCH,
    )


def test_rows_sort_by_tag_slot_position_and_entry_with_columns_last() -> None:
    rows = [
        _row(LaunchTag.HEAD_K_FULL, 7),
        _row(LaunchTag.TAIL_K_FULL, 2, position=1),
        _row(LaunchTag.TAIL_K_FULL, 2, position=3, entry=4),
        _row(LaunchTag.TAIL_K_FULL, 2, position=3, entry=9),
        _row(LaunchTag.SWEEP_V_SWA, 1, position=None),
        _row(None, 1, position=None, entry=None),
    ]
    shuffled = [rows[at] for at in (3, 5, 0, 4, 2, 1)]
    assert sorted(shuffled, key=Violation.sort_key) == rows


def test_hashes_are_16_digits() -> None:
    assert hash_label(0) == "0x0000000000000000"
    assert hash_label(-1) == "0xffffffffffffffff"
    assert hash_label(None) is None


def test_a_row_is_json_with_every_key() -> None:
    document = _row(None, 7, position=None, entry=None).to_dict()
    assert list(document) == [
        "tag", "instance", "group", "pool", "tier", "rank", "entry", "slot", "position", "expected_position", "token",
        "expected_token", "chain_hash", "expected_chain_hash", "real_kv_hash",
        "expected_real_kv_hash", "columns", "reasons", "request_ids", "step",
    ]  # fmt: skip
    assert document["tag"] is None
    assert document["reasons"] == ["verify_position"]
    assert (document["instance"], document["pool"], document["rank"]) == ("decode-0", "FULL", 3)
