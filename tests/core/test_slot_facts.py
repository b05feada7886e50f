from __future__ import annotations

import json

import pytest

from kvaudit.core.slot_facts import (
    ByteComparison,
    ColumnDigests,
    ContentCopy,
    SlotRecord,
    WordDifference,
)
from kvaudit.core.slot_readers import SlotReader

RECORD = SlotRecord(
    buffer="k.tail", token=-5, position=2, prev_hash=0x7B, real_kv_hash=1, slot_hash=2
)


@pytest.mark.parametrize(
    ("hashes", "differs"),
    [
        ({"stamped": 1, "recomputed": 1}, False),
        ({"stamped": 1, "recomputed": 2}, True),
        ({"stamped": 1, "dumped": 2}, True),
        ({"stamped": 0, "dumped": 0}, False),
        ({"stamped": 1}, None),
        ({"recomputed": 1}, None),
        ({"solved": 3, "recomputed": 1}, None),
    ],
)
def test_a_column_differs_where_its_own_stamp_and_what_it_holds_do(
    hashes: dict[str, int], differs: bool | None
) -> None:
    assert ColumnDigests(name="kv.k.0", **hashes).differs is differs


def test_what_was_written_is_stamped_or_else_solved_and_bytes_come_before_digests() -> None:
    column = ColumnDigests(name="kv.k.0", stamped=0, solved=3, dumped=4, recomputed=5)
    assert (column.written, column.held) == (0, 5)
    assert ColumnDigests(name="kv.k.0", solved=3).written == 3
    assert ColumnDigests(name="kv.k.0", solved=3, solved_bytes=16).written is None
    assert ColumnDigests(name="kv.k.0", dumped=4).held == 4


def test_a_record_of_zeros_is_none() -> None:
    assert not RECORD.is_zero
    assert SlotRecord(
        buffer="k.tail", token=0, position=0, prev_hash=0, real_kv_hash=0, slot_hash=9
    ).is_zero


def test_hashes_are_text_in_json_and_what_is_not_known_is_null() -> None:
    assert RECORD.to_dict() == {
        "record": "k.tail",
        "token": -5,
        "position": 2,
        "prev_hash": "0x000000000000007b",
        "real_kv_hash": "0x0000000000000001",
        "expected_real_kv_hash": None,
        "slot_hash": "0x0000000000000002",
    }
    assert ColumnDigests(name="kv.k.0", stamped=0).to_dict() == {
        "column": "kv.k.0",
        "dtype": "",
        "stamped": "0x0000000000000000",
        "dumped": None,
        "recomputed": None,
        "solved": None,
        "solved_bytes": None,
        "differs": None,
        "pattern": "",
    }


def test_a_word_is_its_bytes_as_they_lie_in_memory() -> None:
    word = WordDifference(byte=16, holds=0x01, other=0x0301)
    assert word.bits == 2
    assert word.to_dict() == {
        "byte": 16,
        "holds": "0100000000000000",
        "other": "0103000000000000",
        "bits": 2,
    }
    assert WordDifference(byte=0, holds=1, other=None).to_dict()["bits"] is None


def test_a_comparison_and_a_copy_are_json_values() -> None:
    word = WordDifference(byte=0, holds=1, other=None)
    comparison = ByteComparison(column="kv.k.0", other_slot=None, says="so", words=[word])
    assert json.loads(json.dumps(comparison.to_dict()))["words"] == [word.to_dict()]
    copy = ContentCopy(
        slot=4, readers=[SlotReader(request_id="A", position=2)], same_columns=("kv.k.0",)
    )
    assert json.loads(json.dumps(copy.to_dict())) == {
        "slot": 4,
        "readers": [{"request_id": "A", "position": 2}],
        "same_records": [],
        "same_columns": ["kv.k.0"],
        "stamped_columns": [],
        "written_columns": [],
    }
