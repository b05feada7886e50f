from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.element_types import encoded
from kvaudit.core.layer0_table import Layer0Table
from kvaudit.core.snapshot import PoolKey
from kvaudit.runner.identity.pool_table import PoolTable
from kvaudit.runner.identity.table_fit import fitted_table
from kvaudit.runner.identity.threshold import floor_of
from tests.helpers.layer0_judging import rows_of, rows_of_v
from tests.helpers.layer0_worlds import Layer0World, TokenModel, chatty_world, fixture_f


def fit(world: Layer0World, table: Layer0Table) -> PoolTable | str:
    return fitted_table(table, world.pool().snapshot, rows_of_v(world), rows=rows_of(world))


def ranked(head: int, metadata: dict[str, str] | None = None, **key: int) -> Layer0World:
    """Fixture F as a rank holds it that has one of four heads."""
    whole = fixture_f(num_heads=4)
    world = fixture_f(num_heads=1)
    world.metadata = metadata or {}
    world.key = PoolKey(**key)
    width = world.v.shape[1]
    for half in ("k", "v"):
        getattr(world, half)[:] = getattr(whole, half)[:, head * width : (head + 1) * width]
    return world


MODEL = TokenModel(num_heads=4)


def test_a_table_of_the_model_fits() -> None:
    world = fixture_f()
    found = fit(world, world.model.table())
    assert isinstance(found, PoolTable)
    assert (found.first_head, found.scale, found.whole_pool()) == (0, 1.0, "")
    assert found.threshold.distance == 0.05


@pytest.mark.parametrize("head", range(4))
def test_a_rank_that_says_nothing_is_told_by_its_rows(head: int) -> None:
    found = fit(ranked(head), MODEL.table())
    assert isinstance(found, PoolTable)
    assert (found.first_head, found.whole_pool()) == (head, "")


def test_a_rank_is_told_by_its_metadata_and_by_its_key() -> None:
    by_metadata = fit(ranked(3, {"tp_rank": "3", "world_size": "4"}), MODEL.table())
    by_key = fit(ranked(2, rank=2), MODEL.table())
    assert isinstance(by_metadata, PoolTable)
    assert isinstance(by_key, PoolTable)
    assert (by_metadata.declared_head, by_key.declared_head) == (3, 2)
    assert by_metadata.whole_pool() == by_key.whole_pool() == ""


def test_a_rank_that_holds_another_one_s_heads_is_named() -> None:
    found = fit(ranked(1, {"tp_rank": "3", "world_size": "4"}), MODEL.table())
    assert isinstance(found, PoolTable)
    assert found.first_head == 1
    assert found.whole_pool() == (
        "the rank's heads begin with 3, and the rows are those that begin with 1"
    )


@pytest.mark.parametrize("rank", ["4", "-1", "a"])
def test_a_rank_that_cannot_be_is_none(rank: str) -> None:
    found = fit(ranked(2, {"tp_rank": rank, "world_size": "4"}), MODEL.table())
    assert isinstance(found, PoolTable)
    assert (found.first_head, found.declared_head) == (2, -1)


def test_two_ranks_may_hold_one_head() -> None:
    found = fit(ranked(1, {"tp_rank": "3", "world_size": "8"}), MODEL.table())
    assert isinstance(found, PoolTable)
    assert (found.declared_head, found.first_head, found.whole_pool()) == (1, 1, "")


def test_bytes_of_another_type_than_the_column_s_are_named() -> None:
    world = fixture_f()
    for row in range(2, 10):
        numbers = world.model.v0[rows_of(world).tokens[row - 2]].reshape(1, -1)
        world.v[row] = encoded(numbers, "float16")[0]
    found = fit(world, world.model.table())
    assert isinstance(found, PoolTable)
    assert found.whole_pool() == "the column says bfloat16, and its bytes are float16"


def test_the_scale_of_one_byte_rows_is_read_off_the_pool() -> None:
    world = fixture_f(dtype="float8_e4m3fn")
    scaled = TokenModel(dtype="float8_e4m3fn")
    scaled.__dict__["v0"] = scaled.v0 * 4
    world.v[2:10] = scaled.v([11, 12, 13, 14, 21, 22, 23, 24])
    found = fit(world, world.model.table())
    assert isinstance(found, PoolTable)
    assert found.scale == pytest.approx(4, rel=0.02)


def test_a_pool_whose_every_row_is_of_another_token_is_of_this_model() -> None:
    world = fixture_f()
    world.copy([2, 3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4, 3, 2])
    assert isinstance(fit(world, world.model.table()), PoolTable)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (TokenModel(seed=5).table(), r"not in the table \(random\): it is of another model"),
        (TokenModel(head_dim=8).table(), "2 heads of 8, the pool's 32 elements"),
        (TokenModel(head_dim=12).table(), "it is of another model"),
        (TokenModel(vocab=9).table(), "knows none of the tokens"),
        (TokenModel().table(v0=None), "the table has no V"),
    ],
)
def test_a_table_of_another_model_is_recognised(table: Layer0Table, words: str) -> None:
    found = fit(fixture_f(), table)
    assert isinstance(found, str)
    assert words.replace("\\", "") in found


@pytest.mark.parametrize("byte", [0, 0xFF])
def test_a_pool_of_zeros_or_of_no_numbers_is_held_against_the_table(byte: int) -> None:
    world = fixture_f()
    world.v[:] = byte
    found = fit(world, world.model.table())
    assert isinstance(found, PoolTable)
    assert found.threshold.distance == floor_of(world.model.dtype)
    alike = np.ones((400, 32), dtype=np.float32)
    assert isinstance(fit(world, world.model.table(v0=encoded(alike, "float32"))), str)


@pytest.mark.parametrize("num_left", [1, 8])
def test_a_few_rows_that_are_left_do_not_hide_the_zeros(num_left: int) -> None:
    world = chatty_world(num_requests=4)
    left = world.requests[-1].slots[-num_left:]
    rows = world.v[left]
    world.v[:] = 0
    world.v[left] = rows
    assert isinstance(fit(world, world.model.table()), PoolTable)
    world.v[left] = world.model.stored(np.ones((num_left, 32), dtype=np.float32))
    assert isinstance(fit(world, world.model.table()), PoolTable)


def test_a_few_zeros_do_not_hide_that_a_table_is_of_another_model() -> None:
    world = fixture_f()
    world.v[[2, 3]] = 0
    assert isinstance(fit(world, TokenModel(seed=5).table()), str)


def test_a_table_whose_rows_are_all_alike_tells_nothing() -> None:
    world = fixture_f()
    alike = np.ones((400, 32), dtype=np.float32)
    world.v[:] = world.model.stored(np.ones((16, 32), dtype=np.float32))
    found = fit(world, world.model.table(v0=encoded(alike, "float32")))
    assert isinstance(found, str)
