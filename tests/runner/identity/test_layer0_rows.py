from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.availability import choose
from kvaudit.core.element_types import encoded
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.errors import FileCorrupt
from kvaudit.kernels.distance.reference import launch_distance
from kvaudit.runner.identity.layer0_rows import Layer0Rows, distance_launcher
from tests.helpers.watcher import Watcher


def column(values: np.ndarray, dtype: str = "bfloat16") -> ArrayKvColumn:
    data = encoded(values.astype(np.float32), dtype)
    return ArrayKvColumn(name="kv.v.0", data=data, read_bytes=data.shape[1], dtype=dtype)


def rows_of(*parts: np.ndarray) -> Layer0Rows:
    return Layer0Rows(columns=[column(part) for part in parts], launch_distance=launch_distance)


VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_rows_are_numbers_in_the_order_asked_for() -> None:
    assert rows_of(VALUES).numbers(np.array([2, 0])).tolist() == VALUES[[2, 0]].tolist()


def test_rows_of_several_pools_are_numbered_through() -> None:
    rows = rows_of(VALUES, VALUES[:1], VALUES + 1)
    assert rows.numbers(np.array([6, 3, 0])).tolist() == [
        (VALUES + 1)[2].tolist(),
        VALUES[0].tolist(),
        VALUES[0].tolist(),
    ]


def test_rows_may_be_read_in_another_element_type() -> None:
    rows = rows_of(VALUES)
    assert rows.num_elements == 4
    assert rows.numbers(np.array([1]), dtype="float16").shape == (1, 4)
    assert rows.numbers(np.array([1]), dtype="float16").tolist() != VALUES[[1]].tolist()


def test_distances_are_from_what_is_expected_of_each_part() -> None:
    rows = rows_of(np.tile(VALUES, (60_000, 1)))
    wanted = np.arange(180_000, dtype=np.int64)
    found = rows.distances(wanted, lambda part: rows.numbers(wanted[part]))
    assert not found.any()
    shifted = rows.distances(wanted, lambda part: rows.numbers((wanted[part] + 1) % 3))
    assert (shifted > 0).all()


def test_zeros_and_nan_cannot_be_read() -> None:
    values = VALUES.copy()
    values[0], values[1, 2] = 0, np.nan
    rows = rows_of(values)
    every = np.arange(3)
    assert rows.readable(every).tolist() == [False, False, True]
    assert rows.lengths(every)[2] == pytest.approx(np.linalg.norm(VALUES[2]))


class _Corrupt(ArrayKvColumn):
    def windows(self):  # type: ignore[no-untyped-def]
        raise FileCorrupt("a chunk's digest differs")


def test_no_row_is_read_of_a_file_that_is_not_what_was_written() -> None:
    data = encoded(VALUES, "bfloat16")
    corrupt = _Corrupt(name="kv.v.0", data=data, read_bytes=8, dtype="bfloat16")
    rows = Layer0Rows(columns=[corrupt], launch_distance=launch_distance)
    with pytest.raises(FileCorrupt):
        rows.lengths(np.array([0]))


@pytest.mark.parametrize(("backend", "module"), [("reference", "reference"), ("cpu", "numba_cpu")])
def test_each_backend_measures_by_its_own_kernel(backend: str, module: str) -> None:
    chosen, _ = choose(backend, kv_bytes=0, num_entries=0)
    assert distance_launcher(chosen, Watcher()).__module__ == f"kvaudit.kernels.distance.{module}"
