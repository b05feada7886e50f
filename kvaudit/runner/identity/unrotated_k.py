"""K of layer 0 before its rotation, a token at a time, and the positions that rows are rotated for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.identity import NOT_TOLD
from kvaudit.core.rope import Rope, RotatedPositions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnrotatedK:
    """K of tokens, before its rotation.

    Fields:
        tokens: the tokens, shape [n], int64, ascending.
        entries: what `numbers` calls each of them, shape [n], int64.
        numbers: some entries, shape [k], int64: shape [k, heads, head_dim], float32.
        rope: how K is rotated.
        num_positions: positions that are tried.
        tolerance: the largest distance at which a position explains a row.
    """

    tokens: NDArray[np.int64]
    entries: NDArray[np.int64]
    numbers: Callable[[NDArray[np.int64]], NDArray[np.float32]]
    rope: Rope
    num_positions: int
    tolerance: float = 0.0

    def entries_of(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The entry of each token, shape [n], int64; -1 where its K is not known."""
        if not len(self.tokens):
            return np.full(tokens.shape, -1, dtype=np.int64)
        places = np.minimum(np.searchsorted(self.tokens, tokens), len(self.tokens) - 1)
        return np.where(self.tokens[places] == tokens, self.entries[places], -1)

    def rotated(
        self, entries: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Entries as a pool stores them at positions, shape [n, num_elements], float32."""
        turned = self.rope.rotated(self.numbers(entries), positions)
        return turned.reshape(len(entries), turned.shape[1] * turned.shape[2])

    def positions_of(
        self, stored: NDArray[np.float32], entries: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The position that each stored row was rotated for.

        Args:
            stored: rows of the pool, shape [n, num_elements], float32.
            entries: the entry of each row's token, shape [n], int64.

        Returns:
            shape [n], int64; NOT_TOLD where no position explains the row.
        """
        if not len(entries):
            return np.empty(0, dtype=np.int64)
        found = self._solved(stored, entries)
        return np.where(found.distances <= self.tolerance, found.positions, NOT_TOLD)

    def distances_at_best(
        self, stored: NDArray[np.float32], entries: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """How far rows are from their entries at the position that fits each best, [n], float64."""
        return self._solved(stored, entries).distances.astype(np.float64)

    def _solved(self, stored: NDArray[np.float32], entries: NDArray[np.int64]) -> RotatedPositions:
        unrotated = self.numbers(entries)
        return self.rope.positions_of(
            unrotated, stored.reshape(unrotated.shape), num_positions=self.num_positions
        )
