"""What an engine says of a forward, by pool."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.capture.forward_row import ForwardRow, known_of, rows_by_pool, tables_by_pool
from kvaudit.errors import ConfigError


def row(**changes: object) -> ForwardRow:
    plain = {"request_id": "a", "positions": range(2, 4), "tokens": [7, 8], "slots": [4, 5, 6, 7]}
    return ForwardRow(**(plain | changes))


def test_a_row_is_split_by_pool() -> None:
    parts = rows_by_pool([row(slots={"FULL": [4, 5, 6, 7], "SWA": [9]})], ["FULL", "SWA"])
    assert {name: its.slots.tolist() for name, (its,) in parts.items()} == {
        "FULL": [4, 5, 6, 7],
        "SWA": [9],
    }
    (full,) = parts["FULL"]
    assert (full.request_id, full.positions, full.tokens.tolist()) == ("a", range(2, 4), [7, 8])
    assert (full.known_tokens, full.prompt_len, full.first_position) == (None, -1, 0)


def test_a_pool_that_a_row_does_not_name_has_no_slots() -> None:
    assert tables_by_pool({"FULL": [4]}, ["FULL", "SWA"])["SWA"].tolist() == []
    assert tables_by_pool(np.array([4, 5]), ["FULL"])["FULL"].tolist() == [4, 5]
    assert rows_by_pool([], ["FULL"]) == {"FULL": []}


def test_known_tokens_are_int64() -> None:
    assert known_of([5, 6], "a").dtype == np.int64
    (part,) = rows_by_pool([row(known_tokens=[1, 2, 3])], ["FULL"])["FULL"]
    assert part.known_tokens.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens": [7]},
        {"positions": range(2, 6, 2)},
        {"positions": range(-1, 1)},
        {"positions": range((1 << 30) - 1, (1 << 30) + 1)},
        {"request_id": 5},
        {"prompt_len": -2},
        {"known_tokens": ["x"]},
    ],
)
def test_a_row_that_contradicts_itself_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        rows_by_pool([row(**changes)], ["FULL"])
    assert caught.value.hint


def test_one_table_for_several_pools_is_refused() -> None:
    with pytest.raises(ConfigError, match="several pools"):
        tables_by_pool([4], ["FULL", "SWA"])
