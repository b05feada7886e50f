"""Sets of rows, as ascending arrays: few rows are looked up in many, and the many never sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def union_of(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """All rows of some arrays, shape [k] each, int64, once each and ascending."""
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))


def differing_at(
    columns: Mapping[str, NDArray[np.int64]], rows: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Which of some rows, shape [n], int64, each column has among its own.

    Args:
        columns: rows of each column, int64, ascending.
        rows: the rows, in any order.

    Returns:
        shape [k] each, int64; columns without any are left out.
    """
    found = {name: rows[among(rows, theirs)] for name, theirs in columns.items()}
    return {name: here for name, here in found.items() if here.size}


def among(rows: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows, shape [n], int64, are among many, shape [m], int64, ascending; shape [n], bool."""
    if not ascending.size:
        return np.zeros(rows.shape, dtype=np.bool_)
    places = np.minimum(np.searchsorted(ascending, rows), len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[places] == rows
    return found
