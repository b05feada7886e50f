"""The rows of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.layer0_table import Layer0Table, TableSource
from kvaudit.core.rope import Rope, plain_frequencies
from kvaudit.errors import ValuesInvalid


def _table(**options: object) -> Layer0Table:
    values = {
        "tokens": np.array([1, 4, 9]),
        "k0": np.arange(24, dtype=np.float32).reshape(3, 8).view(np.uint8),
        "v0": np.arange(24, 48, dtype=np.float32).reshape(3, 8).view(np.uint8),
        "dtype": "float32",
        "num_heads": 2,
        "head_dim": 4,
        "source": TableSource.MODEL,
    }
    return Layer0Table(**(values | options))


def test_the_row_of_each_token_is_found() -> None:
    assert _table().rows_of(np.array([9, 0, 4, 10, -1, 1])).tolist() == [2, -1, 1, -1, -1, 0]


def test_rows_are_numbers_by_head() -> None:
    table = _table()
    assert table.k_rows(np.array([1])).tolist() == [[[8, 9, 10, 11], [12, 13, 14, 15]]]
    assert table.v_rows(np.array([2, 0]))[:, 1, 0].tolist() == [44, 28]


def test_the_heads_of_v_may_be_of_another_length() -> None:
    table = _table(v0=np.zeros((3, 24), dtype=np.uint8), v_head_dim=3)
    assert table.v_rows(np.array([0])).shape == (1, 2, 3)


def test_a_table_without_tokens_knows_none() -> None:
    rows = np.empty((0, 32), dtype=np.uint8)
    table = _table(tokens=np.empty(0, dtype=np.int64), k0=rows, v0=rows)
    assert table.rows_of(np.array([0, 7])).tolist() == [-1, -1]


def test_a_half_that_is_not_known_has_no_rows() -> None:
    with pytest.raises(ValuesInvalid):
        _table(k0=None).k_rows(np.array([0]))


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": np.array([1, 1, 9])},
        {"tokens": np.array([1, 9, 4])},
        {"tokens": np.array([-1, 4, 9])},
        {"k0": None, "v0": None},
        {"k0": np.zeros((3, 31), dtype=np.uint8)},
        {"v0": np.zeros((2, 32), dtype=np.uint8)},
        {"dtype": "int4"},
        {"num_heads": 3},
        {"rows_seen": np.array([1, 2])},
        {"rope": Rope(inverse_frequencies=plain_frequencies(theta=1e4, rotary_dim=2), head_dim=2)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_parts_that_contradict_each_other_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValuesInvalid):
        _table(**change)
