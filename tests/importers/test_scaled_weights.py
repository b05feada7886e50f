"""Weights of one byte times their scales, in each of the ways that checkpoints store these."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.importers.scaled_weights import scaled

WEIGHT = np.arange(1, 16, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_scale_is_of_all(shape: tuple[int, ...]) -> None:
    scale = np.full(shape, 2, dtype=np.float32)
    np.testing.assert_array_equal(scaled(WEIGHT.copy(), scale, block=()), 2 * WEIGHT)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_a_scale_a_row_is_of_its_row(shape: tuple[int, ...]) -> None:
    scale = np.array([1, 2, 3], dtype=np.float32).reshape(shape)
    found = scaled(WEIGHT.copy(), scale, block=())
    np.testing.assert_array_equal(found, WEIGHT * [[1], [2], [3]])


def test_a_scale_a_block_is_of_its_block_and_the_last_may_be_smaller() -> None:
    scale = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)
    found = scaled(WEIGHT.copy(), scale, block=(2, 2))
    factors = [[1, 1, 2, 2, 3], [1, 1, 2, 2, 3], [4, 4, 5, 5, 6]]
    np.testing.assert_array_equal(found, WEIGHT * factors)


@pytest.mark.parametrize(
    ("shape", "block"), [((2, 3), ()), ((2, 2), (2, 2)), ((5,), ()), ((1, 5), (128, 128))]
)
def test_a_scale_that_fits_nothing_gives_no_weight(
    shape: tuple[int, ...], block: tuple[int, ...]
) -> None:
    assert scaled(WEIGHT.copy(), np.ones(shape, dtype=np.float32), block=block) is None
