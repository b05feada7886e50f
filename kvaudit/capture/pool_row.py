"""A request's part of a forward, in one pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.stamps import Chain
from kvaudit.constants import NO_SEED, UNKNOWN_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolRow:
    """One request's part of a forward, in one pool.

    Fields:
        request_id: the request.
        positions: positions whose KV the forward writes.
        tokens: the tokens run at them, shape [len(positions)], int64.
        slots: the request's table, slot of each of the positions
            [positions.stop - len(slots), positions.stop), int64.
        known_tokens: the request's tokens from position 0 on, int64; None = those that were run.
        prompt_len: prompt tokens; -1 = unknown.
    """

    request_id: str
    positions: range
    tokens: NDArray[np.int64]
    slots: NDArray[np.int64]
    known_tokens: NDArray[np.int64] | None
    prompt_len: int

    @property
    def first_position(self) -> int:
        """Position of the first slot of the table."""
        return self.positions.stop - len(self.slots)

    def chain(self) -> Chain:
        """What the forward writes of this row: positions that left the window are not stored."""
        first = max(self.positions.start, self.first_position)
        before = first - self.first_position
        return Chain(
            seed_slot_idx=int(self.slots[before - 1]) if before > 0 else NO_SEED,
            positions=np.arange(first, self.positions.stop, dtype=np.int64),
            tokens=self.tokens[first - self.positions.start :],
            slots=self.slots[before:],
        )

    def tokens_after(self, seen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The request's tokens once the row has run: those it names, else those seen so far.

        Args:
            seen: its tokens so far, shape [n], int64.

        Returns:
            shape [m], int64; -1 = unknown.
        """
        if self.known_tokens is not None:
            return self.known_tokens
        first = self.positions.start
        unknown = np.full(max(0, first - len(seen)), UNKNOWN_TOKEN, dtype=np.int64)
        return np.concatenate([seen[:first], unknown, self.tokens])
