"""The hashes of one column, and the rows where they are not its stamp."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.cpu import CpuBackend
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.runner.column_hashes import ColumnHasher, ColumnHashes, index_of
from tests.helpers import corruptions
from tests.helpers.worlds import World, fixture_f

STAMPS = ("kv.k.0", "kv.v.1")


def hasher(world: World, rows: np.ndarray, **options: bool) -> ColumnHasher:
    return ColumnHasher(
        snapshot=world.snapshot(**options), backend=CpuBackend(), rows=rows, stamped=set(STAMPS)
    )


def judged(world: World, rows: np.ndarray, name: str, **options: bool) -> ColumnHashes:
    (column,) = hasher(world, rows, **options).hash_all([name])
    return column


@pytest.mark.parametrize("rows", [np.arange(2, 9), np.array([2, 5, 7])], ids=["run", "apart"])
def test_a_changed_row_differs_and_no_other(rows: np.ndarray) -> None:
    world = fixture_f(stamps=STAMPS)
    before = judged(world, rows, "kv.v.1")
    assert before.differing_rows.tolist() == []
    corruptions.flip_bit(world, "kv.v.1", 7)
    after = judged(world, rows, "kv.v.1")
    assert after.differing_rows.tolist() == [7]
    assert rows[before.hashes != after.hashes].tolist() == [7]


def test_a_column_without_a_stamp_differs_nowhere() -> None:
    world = fixture_f(stamps=STAMPS)
    corruptions.flip_bit(world, "kv.k.1", 7)
    assert judged(world, np.arange(2, 9), "kv.k.1").differing_rows.size == 0


def test_dumped_digests_give_the_hashes_of_the_bytes_and_fold_nothing() -> None:
    world, rows = fixture_f(stamps=STAMPS), np.array([2, 5, 7])
    folded = judged(world, rows, "kv.k.0")
    dumped = judged(world, rows, "kv.k.0", digests_only=True)
    np.testing.assert_array_equal(dumped.hashes, folded.hashes)
    assert (dumped.kv_bytes, folded.kv_bytes) == (0, 3 * world.snapshot().kv["kv.k.0"].read_bytes)


def test_leading_bytes_are_the_first_16() -> None:
    world, rows = fixture_f(stamps=STAMPS, row_bytes=32), np.arange(2, 9)
    (leading,) = hasher(world, rows).hash_all([], leading=["kv.k.0"])
    assert leading.kv_bytes == 16 * len(rows)
    short = fixture_f(stamps=STAMPS, row_bytes=16)
    for slot in rows.tolist():
        short.kv["kv.k.0"][slot] = world.kv["kv.k.0"][slot][:16]
    np.testing.assert_array_equal(leading.hashes, judged(short, rows, "kv.k.0").hashes)


def test_columns_come_in_order_leading_bytes_first_and_dumped_digests_in_their_place() -> None:
    world, rows = fixture_f(stamps=STAMPS, row_bytes=32), np.arange(2, 9)
    judge = hasher(world, rows)
    del judge.snapshot.kv["kv.k.1"]
    judge.snapshot.digests["kv.k.1"] = ArrayColumn(name="digest.k.1", values=np.arange(16))
    columns = list(judge.hash_all(["kv.v.1", "kv.k.1", "kv.k.0"], leading=["kv.k.0"]))
    assert [column.name for column in columns] == ["kv.k.0", "kv.v.1", "kv.k.1", "kv.k.0"]
    assert columns[2].hashes.tolist() == rows.tolist()
    assert (columns[0].hashes != columns[3].hashes).all()


@pytest.mark.parametrize("rows", [[], [4], [4, 5, 6], [1, 4, 5]])
def test_an_index_picks_the_shifted_rows(rows: list[int]) -> None:
    picked = np.arange(20)[index_of(np.array(rows, dtype=np.int64), 3)]
    assert picked.tolist() == [row + 3 for row in rows]
