"""When each slot was last written, and last seen to be as it should."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


class SlotHistory:
    """What a replay knows of the slots of its pool, so that a difference has its steps.

    Args:
        num_slots: slots of the pool.
        start_step: the step that the replay begins after: nothing before it is known.
        known: by buffer, the slots whose record is known, shape [num_slots], bool; kept up to date.
    """

    def __init__(
        self, num_slots: int, *, start_step: int, known: Mapping[str, NDArray[np.bool_]]
    ) -> None:
        self.known = known
        self._written_step = np.full(num_slots, start_step, dtype=np.int64)
        self._seen_step = np.full(num_slots, start_step - 1, dtype=np.int64)
        self._is_bad = np.zeros(num_slots, dtype=np.bool_)

    def write(self, slots: NDArray[np.int64], *, step: int, buffers: frozenset[str]) -> None:
        """Slots, shape [n], int64, were written; buffers are those whose launch ran."""
        self._written_step[slots] = step
        self._is_bad[slots] = False
        for name, known in self.known.items():
            # Where the launch did not run, the record is an older one: nobody knows which.
            known[slots] = name in buffers

    def copy(self, src: NDArray[np.int64], dst: NDArray[np.int64], *, step: int) -> None:
        """Slots were copied, all read before one was written."""
        self._written_step[dst] = step
        self._is_bad[dst] = self._is_bad[src]
        for known in self.known.values():
            known[dst] = known[src]

    def see(self, slots: NDArray[np.int64], *, step: int, bad: NDArray[np.int64]) -> None:
        """Slots, shape [n], int64, were looked at after a step; bad are those that differ."""
        self._is_bad[bad] = True
        good = slots[~self._is_bad[slots]]
        self._seen_step[good] = step

    def is_news(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which slots, shape [n], int64, were not seen to differ before; shape [n], bool."""
        return ~self._is_bad[slots]

    def is_unwritten_since(self, slots: NDArray[np.int64], step: int) -> NDArray[np.bool_]:
        """Which slots, shape [n], int64, no step after this one wrote; shape [n], bool."""
        return self._written_step[slots] <= step

    def first_step_of(self, slot: int) -> int:
        """The first step in which a slot that differs now may have come to."""
        return int(max(self._written_step[slot], self._seen_step[slot] + 1))
