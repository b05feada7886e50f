"""Rows, names and keys of a snapshot."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import DigestGrain, PoolKey, Snapshot
from kvaudit.errors import SnapshotInconsistent, ValuesInvalid


def _snapshot(slots: list[int], *, num_slots: int = 20, **fields: object) -> Snapshot:
    return Snapshot(
        slots=np.array(slots, dtype=np.int64), num_slots=num_slots, **{"page_size": 2, **fields}
    )


@pytest.mark.parametrize("slots", [[2, 3, 4, 5], [0, 1, 2], [3, 9, 15], [7]])
def test_rows_are_found_by_slot(slots: list[int]) -> None:
    snapshot = _snapshot(slots)
    wanted = np.array([-(2**63), *range(-2, 22), 2**63 - 1])
    rows = snapshot.rows_of(wanted).tolist()
    assert rows == [slots.index(slot) if slot in slots else -1 for slot in wanted.tolist()]


def test_an_empty_snapshot_has_no_row() -> None:
    snapshot = _snapshot([])
    assert not snapshot.is_dense
    assert snapshot.rows_of(np.array([0, 5])).tolist() == [-1, -1]


def test_dense_means_consecutive() -> None:
    assert _snapshot([2, 3, 4]).is_dense
    assert not _snapshot([2, 4]).is_dense


@pytest.mark.parametrize(
    ("slots", "row"),
    [
        pytest.param([2, 2], 1, id="repeated"),
        pytest.param([2, 5, 3], 2, id="falling"),
        pytest.param([-1, 3], 0, id="negative"),
        pytest.param([2, 20], 1, id="past num_slots"),
    ],
)
def test_slots_that_no_pool_has_are_refused(slots: list[int], row: int) -> None:
    with pytest.raises(ValuesInvalid) as caught:
        _snapshot(slots)
    assert (caught.value.column, caught.value.row) == ("slot", row)


def test_a_page_has_at_least_one_slot() -> None:
    with pytest.raises(ValuesInvalid):
        _snapshot([2], page_size=0)


def test_a_column_has_as_many_rows_as_there_are_slots() -> None:
    column = ArrayKvColumn(name="kv.k.0", data=np.zeros((3, 8), np.uint8), read_bytes=8)
    with pytest.raises(SnapshotInconsistent) as caught:
        _snapshot([2, 3], kv={"kv.k.0": column})
    assert caught.value.column == "kv.k.0"


def test_a_key_reads_as_one_word() -> None:
    assert PoolKey().label() == "FULL"
    key = PoolKey(instance="decode-0", group="target", pool_kind=PoolKind.SWA, pool="SWA", rank=3)
    assert key.label() == "decode-0.target.SWA.r3"


@pytest.mark.parametrize(
    ("expectation", "other", "is_same"),
    [
        (PoolKey(), PoolKey(), True),
        (PoolKey(step=1), PoolKey(step=1), True),
        (PoolKey(step=1), PoolKey(step=2), False),
        (PoolKey(), PoolKey(step=2), True),
        (PoolKey(step=1), PoolKey(), True),
        (PoolKey(), PoolKey(rank=0), False),
        (PoolKey(group="draft"), PoolKey(group="target"), False),
        (PoolKey(pool="x"), PoolKey(), False),
    ],
)
def test_only_a_step_may_be_left_out_of_the_same_key(
    expectation: PoolKey, other: PoolKey, is_same: bool
) -> None:
    assert expectation.pairs_with(other) is is_same


def test_a_pool_says_where_it_lies_without_its_step() -> None:
    key = PoolKey(instance="prefill-0", group="draft", rank=2, step=9)
    assert key.place() == {
        "instance": "prefill-0",
        "group": "draft",
        "pool": "FULL",
        "tier": None,
        "rank": 2,
    }
    assert type(key.place()["pool"]) is str


def test_a_pool_without_a_name_has_that_of_its_kind() -> None:
    key = PoolKey(pool_kind=PoolKind.SWA, rank=0)
    assert key == PoolKey(pool="SWA", pool_kind=PoolKind.SWA, rank=0)
    assert key.given() == {"pool": "SWA", "pool_kind": "SWA", "rank": 0}
    assert PoolKey(pool="draft", pool_kind=PoolKind.SWA).pool == "draft"


def test_pools_of_one_engine_rank_and_step_lie_beside_each_other() -> None:
    full = PoolKey(group="target", rank=1, step=3)
    assert full.is_beside(PoolKey(group="target", pool="w", pool_kind=PoolKind.SWA, rank=1, step=3))
    assert not full.is_beside(PoolKey(group="target", pool_kind=PoolKind.SWA, rank=1, step=4))
    assert not full.is_beside(PoolKey(pool_kind=PoolKind.SWA, rank=1, step=3))


@pytest.mark.parametrize("family", ["kv", "canary"])
def test_digests_of_pages_stand_beside_no_value_of_a_slot(family: str) -> None:
    column = {
        "kv": ArrayKvColumn(name="kv.k.0", data=np.zeros((2, 8), np.uint8), read_bytes=8),
        "canary": ArrayColumn(name="canary.k.tail", values=np.zeros((2, 4), np.int64)),
    }[family]
    with pytest.raises(SnapshotInconsistent, match="of pages") as refused:
        _snapshot([4, 5], digest_grain=DigestGrain.PAGE, **{family: {"x": column}})
    assert refused.value.hint


@pytest.mark.parametrize(
    ("grain", "rows", "hashed"),
    [
        (DigestGrain.SLOT, [3, 1, 3], [1, 3]),
        (DigestGrain.PAGE, [1], [0, 1]),
        (DigestGrain.PAGE, [4, 2, 1], [0, 1, 2, 3, 4]),
        (DigestGrain.PAGE, [], []),
    ],
)
def test_a_hash_of_a_page_is_of_all_its_rows(
    grain: DigestGrain, rows: list[int], hashed: list[int]
) -> None:
    """Pages of 4, of which one is dumped in part."""
    snapshot = _snapshot([4, 6, 9, 12, 13], page_size=4, digest_grain=grain)
    found = snapshot.hashed_with(np.array(rows, dtype=np.int64))
    assert found.tolist() == hashed
