"""Where values stand in an array, for many look-ups: one sort, then a binary search each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class ValueIndex:
    """Answers for an array, shape [n], of any ordered dtype, where given values stand in it."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._order = np.argsort(values, kind="stable")
        self._sorted = values[self._order]

    def where(self, wanted: NDArray[Any]) -> NDArray[np.int64]:
        """The places of all elements that equal any of the wanted values; [k], int64, ascending."""
        wanted = np.unique(wanted)
        starts = np.searchsorted(self._sorted, wanted, side="left")
        counts = np.searchsorted(self._sorted, wanted, side="right") - starts
        firsts = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return np.sort(self._order[firsts + np.arange(counts.sum())])

    def places(self, wanted: NDArray[Any]) -> list[NDArray[np.int64]]:
        """The places of each wanted value, shape [k] each, int64, ascending."""
        starts = np.searchsorted(self._sorted, wanted, side="left")
        stops = np.searchsorted(self._sorted, wanted, side="right")
        spans = zip(starts.tolist(), stops.tolist(), strict=True)
        return [self._order[start:stop] for start, stop in spans]

    def first(self, wanted: NDArray[Any]) -> NDArray[np.int64]:
        """The first place of each wanted value, shape [n], int64; -1 where there is none."""
        if not self._sorted.size:
            return np.full(wanted.shape, -1, dtype=np.int64)
        places = np.searchsorted(self._sorted, wanted, side="left")
        places = np.minimum(places, len(self._sorted) - 1)
        return np.where(self._sorted[places] == wanted, self._order[places], -1)
