"""Which token's row a row is, among all that are known: by random projections, then measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.kernels.row_threads import run_rows
from kvaudit.runner.identity.layer0_rows import LaunchDistance

_DIMENSIONS: Final = 32
_ROWS_PER_TASK: Final = 1 << 11
# Rows and known rows that are compared at a time: their scores take 16 MiB.
_WANTED_AT_ONCE: Final = 1 << 8
_KNOWN_AT_ONCE: Final = 1 << 14
# A longer projection is that of damaged bytes: so cut, its square and its products are numbers.
_LONGEST: Final = 1e15
_SEED: Final = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownRows:
    """Rows of tokens that are known.

    Fields:
        tokens: token of each, shape [n], int64, in any order.
        numbers: some of the rows by their numbers, shape [k], int64: shape [k, num_elements],
            float32.
        num_elements: elements of a row.
    """

    tokens: NDArray[np.int64]
    numbers: Callable[[NDArray[np.int64]], NDArray[np.float32]]
    num_elements: int

    def __len__(self) -> int:
        return len(self.tokens)

    def only(self, members: NDArray[np.int64]) -> KnownRows:
        """Some of them, by their numbers, shape [k], int64."""
        numbers = self.numbers
        return KnownRows(
            tokens=self.tokens[members],
            numbers=lambda some: numbers(members[some]),
            num_elements=self.num_elements,
        )

    @cached_property
    def _directions(self) -> NDArray[np.float32]:
        """Directions that rows are projected on, shape [num_elements, dimensions], float32."""
        rng = np.random.default_rng(_SEED)
        return rng.standard_normal((self.num_elements, _DIMENSIONS)).astype(np.float32)

    def _on_directions(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows, projected, shape [n, dimensions], float32, all finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            projected = rows @ self._directions
        projected[np.isnan(projected)] = _LONGEST
        cut: NDArray[np.float32] = np.clip(projected, -_LONGEST, _LONGEST)
        return cut

    @cached_property
    def _projected(self) -> NDArray[np.float32]:
        """All rows, projected, shape [n, dimensions], float32."""
        projected = np.empty((len(self), _DIMENSIONS), dtype=np.float32)

        def project(first: int, last: int) -> None:
            projected[first:last] = self._on_directions(self.numbers(np.arange(first, last)))

        _ = self._directions
        run_rows(project, len(self), rows_per_task=_ROWS_PER_TASK)
        return projected

    def nearest(
        self, wanted: NDArray[np.float32], launch_distance: LaunchDistance
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The known row that each wanted row is nearest to, and how far it is.

        Args:
            wanted: rows, shape [n, num_elements], float32, finite.
            launch_distance: what measures.

        Returns:
            numbers of known rows, shape [n], int64, and distances, shape [n], float64; infinity
            where nothing is known.
        """
        distances = np.full(len(wanted), np.inf)
        found = np.zeros(len(wanted), dtype=np.int64)
        if not len(self):
            return found, distances
        for first in range(0, len(wanted), _WANTED_AT_ONCE):
            part = slice(first, first + _WANTED_AT_ONCE)
            found[part] = self._candidates(self._on_directions(wanted[part]))
        launch_distance(wanted, self.numbers(found), distances)
        return found, distances

    def _candidates(self, wanted: NDArray[np.float32]) -> NDArray[np.int64]:
        """The nearest of the projected rows, shape [n], int64."""
        best = np.full(len(wanted), np.inf, dtype=np.float32)
        found = np.zeros(len(wanted), dtype=np.int64)
        for first in range(0, len(self), _KNOWN_AT_ONCE):
            known = self._projected[first : first + _KNOWN_AT_ONCE]
            # Squared distances but for the wanted rows' own lengths, which are the same for all.
            scores = np.einsum("ij,ij->i", known, known) - 2 * (wanted @ known.T)
            places = scores.argmin(axis=1)
            scored = np.take_along_axis(scores, places[:, None], axis=1)[:, 0]
            is_better = scored < best
            best[is_better] = scored[is_better]
            found[is_better] = first + places[is_better]
        return found
