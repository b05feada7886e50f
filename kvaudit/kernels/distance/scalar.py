"""The distance of one row, compiled by njit."""

from __future__ import annotations

import math

import numpy as np


def relative_distance(row, expected):
    """The distance of two rows, float32 of one length; float64. See the contract."""
    gap = 0.0
    row_length = 0.0
    expected_length = 0.0
    for element in range(row.shape[0]):
        value = np.float64(row[element])
        wanted = np.float64(expected[element])
        difference = value - wanted
        gap += difference * difference
        row_length += value * value
        expected_length += wanted * wanted
    if not math.isfinite(row_length) or not math.isfinite(expected_length):
        return math.inf
    if gap == 0.0:
        return 0.0
    return math.sqrt(gap) / math.sqrt(max(row_length, expected_length))
