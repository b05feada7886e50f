"""The sequences that a run is done with, for as long as memory still holds them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PADDING_SLOT


class FinishedSequences:
    """Finished sequences, each up to the first slot that was given away.

    Args:
        num_slots: slots of the pool.
    """

    def __init__(self, num_slots: int) -> None:
        self._slots: dict[str, NDArray[np.int64]] = {}
        self._starts: dict[str, int] = {}
        # How many of them hold a slot: most writes hit none.
        self._holders = np.zeros(num_slots, dtype=np.int32)
        self._num_added = 0

    def __iter__(self) -> Iterator[tuple[str, int, NDArray[np.int64]]]:
        """A name of its own, the first position, and the slots, shape [n], int64, of each."""
        for name, slots in self._slots.items():
            yield name, self._starts[name], slots

    def add(self, request_id: str, slots: NDArray[np.int64], *, start: int = 0) -> None:
        """A request has ended.

        Args:
            request_id: its name; two of one name are two sequences.
            slots: slot of each position that stays, shape [n], int64; PADDING_SLOT = none.
            start: position of the first of them.
        """
        if not len(slots):
            return
        self._num_added += 1
        name = f"{request_id}#{self._num_added}"
        self._slots[name], self._starts[name] = slots.copy(), start
        np.add.at(self._holders, self._held(slots), 1)

    def clear(self) -> None:
        """Let go of all of them."""
        self._slots.clear()
        self._starts.clear()
        self._holders[:] = 0

    def give_away(self, slots: NDArray[np.int64]) -> None:
        """Slots inside the pool, shape [n], int64, are written anew."""
        lost = slots[self._holders[slots] > 0]
        if not lost.size:
            return
        for name, held in list(self._slots.items()):
            is_lost = np.isin(held, lost)
            if is_lost.any():
                self._cut(name, int(np.argmax(is_lost)))

    def holders_of(self, slot: int) -> Iterator[tuple[str, int]]:
        """The requests that held a slot when they ended, each with its position."""
        if 0 <= slot < len(self._holders) and self._holders[slot]:
            for name, start, held in self:
                for place in np.flatnonzero(held == slot):
                    yield name.rpartition("#")[0], start + int(place)

    def _cut(self, name: str, length: int) -> None:
        held = self._slots[name]
        np.add.at(self._holders, self._held(held[length:]), -1)
        if length:
            self._slots[name] = held[:length]
        else:
            del self._slots[name], self._starts[name]

    def _held(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        inside = (slots != PADDING_SLOT) & (slots < len(self._holders))
        held: NDArray[np.int64] = slots[inside]
        return held
