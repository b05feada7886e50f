"""`distance` on the CPU: rows are shared out among threads."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit.kernels.array_forms import read_only
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.distance import scalar
from kvaudit.kernels.row_threads import run_rows

_ELEMENTS_PER_TASK = 1 << 18

_relative_distance = njit(scalar.relative_distance)


@compiled
def _distance_rows(rows, expected, distances, first, last):
    for entry in range(first, last):
        distances[entry] = _relative_distance(rows[entry], expected[entry])


KERNELS = (_distance_rows,)


def launch_distance(
    rows: NDArray[np.float32], expected: NDArray[np.float32], distances: NDArray[np.float64]
) -> None:
    """The contract of `kvaudit.kernels.distance`."""
    rows = read_only(np.ascontiguousarray(rows))
    expected = read_only(np.ascontiguousarray(expected))

    def distance_rows(first: int, last: int) -> None:
        _distance_rows(rows, expected, distances, first, last)

    rows_per_task = max(1, _ELEMENTS_PER_TASK // max(1, rows.shape[1]))
    run_rows(distance_rows, rows.shape[0], rows_per_task=rows_per_task)
