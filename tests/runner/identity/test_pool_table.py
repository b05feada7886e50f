from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.layer0_table import TableSource
from kvaudit.runner.identity.pool_table import PoolTable, common_scale
from tests.helpers.layer0_judging import rows_of, rows_of_v
from tests.helpers.layer0_worlds import Layer0World, TokenModel, fixture_f

MODEL = TokenModel(num_heads=4)


def half_of_the_heads() -> PoolTable:
    world = Layer0World(model=TokenModel(num_heads=2), num_slots=4)
    return PoolTable(table=MODEL.table(), v=rows_of_v(world), first_head=1, dtype="bfloat16")


def test_a_rank_holds_its_heads_of_the_table() -> None:
    table = half_of_the_heads()
    assert table.num_heads == 2
    entries = np.array([7, 0])
    assert np.array_equal(table.v_numbers(entries), MODEL.v0[[7, 0], 1:3].reshape(2, -1))
    assert np.array_equal(table.k_numbers(entries), MODEL.k0[[7, 0], 1:3])
    other = table.beginning_with(2)
    assert np.array_equal(other.v_numbers(entries), MODEL.v0[[7, 0], 2:4].reshape(2, -1))


def test_no_entry_is_no_row() -> None:
    assert half_of_the_heads().v_numbers(np.empty(0, dtype=np.int64)).shape == (0, 32)


def test_a_learnt_entry_counts_where_two_rows_agreed_and_most() -> None:
    world = fixture_f()
    table = world.model.table(
        TableSource.LEARNT,
        rows_seen=np.full(400, 4),
        rows_agreeing=np.where(np.arange(400) < 12, 1, np.where(np.arange(400) < 20, 2, 3)),
    )
    found = PoolTable(table=table, v=rows_of_v(world)).trusted(np.array([11, 13, 21, 999]))
    assert found.tolist() == [-1, -1, 21, -1]


def test_disputed_rows_and_extra_keys_are_not_for_a_table() -> None:
    world = fixture_f().request("C", [77], [2]).request("lora", [1, 2], [10, 11], extra_key="x")
    rows = rows_of(world)
    entries = PoolTable(table=world.model.table(), v=rows_of_v(world)).entries_for(rows)
    assert rows.rows[entries < 0].tolist() == [2, 10, 11]


def test_a_pool_that_is_what_its_file_says_has_nothing_in_common() -> None:
    table = half_of_the_heads()
    assert table.whole_pool() == ""


@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_the_scale_of_one_byte_numbers_is_found_beside_faults(scale: float) -> None:
    wanted = MODEL.v0[:50].reshape(50, -1)
    held = wanted * np.float32(scale)
    held[:20] = np.roll(held[:20], 1, axis=0)
    assert common_scale(held, wanted, dtype="float8_e4m3fn") == pytest.approx(scale)
    assert common_scale(held, wanted, dtype="bfloat16") == 1.0
    assert common_scale(wanted[:3] * 0, wanted[:3], dtype="float8_e5m2") == 1.0
