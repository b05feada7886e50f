"""`distance` as its contract words it, on Python floats."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def launch_distance(
    rows: NDArray[np.float32], expected: NDArray[np.float32], distances: NDArray[np.float64]
) -> None:
    """The contract of `kvaudit.kernels.distance`."""
    for entry in range(rows.shape[0]):
        gap = row_length = expected_length = 0.0
        for value, wanted in zip(rows[entry].tolist(), expected[entry].tolist(), strict=True):
            gap += (value - wanted) * (value - wanted)
            row_length += value * value
            expected_length += wanted * wanted
        if not math.isfinite(row_length) or not math.isfinite(expected_length):
            distances[entry] = math.inf
        elif gap == 0:
            distances[entry] = 0.0
        else:
            distances[entry] = math.sqrt(gap) / math.sqrt(max(row_length, expected_length))
