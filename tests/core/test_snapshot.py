from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.snapshot import PoolKey, Snapshot, column_half, column_layer
from kvaudit.errors import SnapshotInconsistent, ValuesInvalid


def snapshot(*slots: int, **changes) -> Snapshot:
    fields = {"slots": np.array(slots, dtype=np.int64), "num_slots": 16, "page_size": 2}
    return Snapshot(**{**fields, **changes})


def test_rows_are_found_by_slot_in_dense_and_sparse_pools() -> None:
    asked = np.array([2, 3, 9, 5, 16, -1], dtype=np.int64)
    dense = snapshot(2, 3, 4, 5)
    sparse = snapshot(2, 5, 9)
    assert (dense.is_dense, sparse.is_dense) == (True, False)
    assert dense.rows_of(asked).tolist() == [0, 1, -1, 3, -1, -1]
    assert sparse.rows_of(asked).tolist() == [0, -1, 2, 1, -1, -1]


def test_finding_rows_leaves_the_question_as_it_was() -> None:
    asked = np.array([99, 2], dtype=np.int64)
    snapshot(2, 3).rows_of(asked)
    assert asked.tolist() == [99, 2]


def test_an_empty_pool_has_no_row_of_any_slot() -> None:
    assert snapshot().rows_of(np.array([0, 1], dtype=np.int64)).tolist() == [-1, -1]
    assert not snapshot().is_dense


@pytest.mark.parametrize(
    ("slots", "row"), [((2, 2), 1), ((3, 2), 1), ((-1, 2), 0), ((2, 16), 1)], ids=str
)
def test_slots_ascend_within_the_pool(slots: tuple[int, ...], row: int) -> None:
    with pytest.raises(ValuesInvalid) as raised:
        snapshot(*slots)
    assert (raised.value.column, raised.value.row) == ("slot", row)


def test_a_page_holds_at_least_a_slot() -> None:
    with pytest.raises(ValuesInvalid):
        snapshot(2, page_size=0)


def test_every_column_has_a_row_a_slot() -> None:
    column = ArrayKvColumn(name="kv.k.0", data=np.zeros((3, 8), dtype=np.uint8), read_bytes=8)
    with pytest.raises(SnapshotInconsistent) as raised:
        snapshot(2, 3, kv={"kv.k.0": column})
    assert raised.value.column == "kv.k.0"


def test_a_column_says_its_half_and_layer() -> None:
    names = ("kv.k.17", "kv.v.0", "kv.kv.3", "kv.side.scales")
    assert [column_half(name) for name in names] == [KvHalf.K, KvHalf.V, KvHalf.K, KvHalf.K]
    assert [column_layer(name) for name in names] == [17, 0, 3, None]


def test_a_key_is_one_word_for_people() -> None:
    key = PoolKey(instance="decode-0", group="target", rank=3)
    assert key.label() == "decode-0.target.FULL.r3"
    assert replace(key, instance=None, group=None, rank=None).label() == "FULL"
