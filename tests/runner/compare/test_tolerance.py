from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kvaudit.core.element_types import encoded
from kvaudit.core.kv_column import ArrayKvColumn, KvWindow
from kvaudit.errors import SchemaMismatch
from kvaudit.runner.compare.tolerance import RowGatherer, beyond, check_types

VALUES = np.array([[1.0, -8.0, 0.5, 0.0], [3.0, 3.0, 3.0, 3.0]], dtype=np.float32)


def _column(values: np.ndarray, dtype: str = "bfloat16") -> ArrayKvColumn:
    data = encoded(values.astype(np.float32), dtype)
    return ArrayKvColumn(name="kv.k.0", data=data, read_bytes=data.shape[1], dtype=dtype)


def _far(left: np.ndarray, right: np.ndarray, tolerance: float, dtype: str = "bfloat16"):
    rows = np.arange(len(left))
    one, other = (_column(values, dtype) for values in (left, right))
    return beyond((one, rows), (other, rows), tolerance=tolerance).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_an_element_may_lie_off_by_a_fraction_of_the_largest_of_its_row(dtype: str) -> None:
    moved = VALUES.copy()
    moved[0, 2] += 0.25
    moved[1, 1] += 0.25
    assert _far(VALUES, moved, 0.05, dtype) == [False, True]
    assert _far(VALUES, moved, 0.02, dtype) == [True, True]


def test_numbers_that_are_not_finite_must_be_the_same_on_both_sides() -> None:
    odd = VALUES.copy()
    odd[0, 0], odd[1, 0] = np.nan, np.inf
    assert _far(odd, odd, 0.1) == [False, False]
    assert _far(odd, VALUES, 0.9) == [True, True]
    other = odd.copy()
    other[1, 0] = -np.inf
    assert _far(odd, other, 0.9) == [False, True]


def test_rows_of_zeros_are_equal_and_nothing_else_is() -> None:
    zeros = np.zeros((1, 4), np.float32)
    assert _far(zeros, zeros, 0.01) == [False]
    assert _far(zeros, VALUES[:1], 0.99) == [True]


def test_the_largest_difference_does_not_overflow() -> None:
    huge = np.full((1, 2), 3e38, np.float32)
    assert _far(huge, -huge, 0.99, "float32") == [True]


@pytest.mark.parametrize("dtype", ["", "int8", "uint8"])
def test_a_column_without_a_float_type_is_refused_by_name(dtype: str) -> None:
    column = ArrayKvColumn(
        name="kv.k.0", data=np.zeros((1, 4), np.uint8), read_bytes=4, dtype=dtype
    )
    with pytest.raises(SchemaMismatch) as error:
        check_types(column, path="a.arrow")
    assert (error.value.path, error.value.column) == ("a.arrow", "kv.k.0")


def test_elements_that_do_not_fill_the_row_are_refused() -> None:
    column = ArrayKvColumn(
        name="kv.k.0", data=np.zeros((1, 5), np.uint8), read_bytes=5, dtype="float16"
    )
    with pytest.raises(SchemaMismatch):
        check_types(column, path="a.arrow")


def test_rows_are_gathered_in_any_order_from_memory_or_piece_by_piece() -> None:
    column = _column(np.arange(2000, dtype=np.float32).reshape(1000, 2))
    rows = np.random.default_rng(0).integers(0, 1000, 300)

    class Pieces(ArrayKvColumn):
        is_resident = False

        def windows(self) -> Iterator[KvWindow]:
            for first in range(0, 1000, 7):
                yield KvWindow(first_row=first, data=self.data[first : first + 7])

    pieces = Pieces(name="kv.k.0", data=column.data, read_bytes=4, dtype="bfloat16")
    for each in (column, pieces):
        assert np.array_equal(RowGatherer(each).rows(rows), column.data[rows])
    assert np.array_equal(RowGatherer(pieces).numbers(rows), RowGatherer(column).numbers(rows))
