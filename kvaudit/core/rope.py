"""Rotary position embeddings: a row rotated for a position, and the position a row is rotated for."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from operator import index
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.errors import ValuesInvalid

_MAX_HEAD_DIM: Final = 1 << 16
# Rows and positions that are tried at a time: their scores take 16 MiB.
_ROWS_AT_ONCE: Final = 1 << 10
_POSITIONS_AT_ONCE: Final = 1 << 12


class RopeLayout(StrEnum):
    """Which elements of a head turn together.

    HALF: element j of the rotary part with element j + rotary_dim / 2. INTERLEAVED: element 2j with
    element 2j + 1.
    """

    HALF = "half"
    INTERLEAVED = "interleaved"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RotatedPositions:
    """The positions that rows are rotated for, as far as any position explains them.

    Fields:
        positions: the best position of each row, shape [n], int64.
        distances: how far each row is from its table row rotated for that position, over that
            row's length, shape [n], float32; small where the position explains the row, infinity
            where the table row is zero or the row is not finite.
    """

    positions: NDArray[np.int64]
    distances: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rope:
    """How one model rotates the K rows of a layer.

    The elements [first_dim, first_dim + rotary_dim) of each head turn, pair j by position *
    inverse_frequencies[j]; the others stay as they are.

    Fields:
        inverse_frequencies: radians a position of each pair, scaled as the model scales them,
            shape [rotary_dim / 2], float64.
        head_dim: elements of a head.
        layout: which elements make a pair.
        first_dim: the first rotary element of a head: 0 but for a latent row.
        factor: what the rotation multiplies by, such as YaRN's attention factor.
    """

    inverse_frequencies: NDArray[np.float64]
    head_dim: int
    layout: RopeLayout = RopeLayout.HALF
    first_dim: int = 0
    factor: float = 1.0

    def __post_init__(self) -> None:
        frequencies = self.inverse_frequencies
        if frequencies.ndim != 1 or not frequencies.size or not np.isfinite(frequencies).all():
            raise ValuesInvalid(
                "the inverse frequencies are no list of finite numbers",
                hint="give one a pair of rotary elements",
            )
        if self.first_dim < 0 or self.first_dim + self.rotary_dim > self.head_dim:
            raise ValuesInvalid(
                f"{self.rotary_dim} rotary elements from {self.first_dim} on, in a head of "
                f"{self.head_dim}",
                hint="correct head_dim",
            )
        if not math.isfinite(self.factor) or self.factor <= 0:
            raise ValuesInvalid(f"the rotation's factor is {self.factor}", hint="it is mostly 1")

    @property
    def rotary_dim(self) -> int:
        """Elements of a head that turn."""
        return 2 * len(self.inverse_frequencies)

    def rotated(
        self, rows: NDArray[np.float32], positions: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Rows as the model stores them at their positions.

        Args:
            rows: K before its rotation, shape [n, heads, head_dim], float32.
            positions: shape [n], int64, in tokens.

        Returns:
            shape [n, heads, head_dim], float32.
        """
        return self._turned(rows, self._turns(positions) * np.complex64(self.factor))

    def unrotated(
        self, rows: NDArray[np.float32], positions: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Rows as they were before the rotation for their positions: the inverse of `rotated`.

        Args:
            rows: K as stored, shape [n, heads, head_dim], float32.
            positions: shape [n], int64, in tokens.

        Returns:
            shape [n, heads, head_dim], float32.
        """
        return self._turned(rows, self._turns(positions).conj() / np.complex64(self.factor))

    def positions_of(
        self,
        unrotated: NDArray[np.float32],
        stored: NDArray[np.float32],
        *,
        num_positions: int,
    ) -> RotatedPositions:
        """The positions that stored rows were rotated for.

        Each pair of a row tells its angle; the position is the one that fits all angles best.

        Args:
            unrotated: what the table holds for each row's token, shape [n, heads, head_dim],
                float32.
            stored: the rows, shape [n, heads, head_dim], float32.
            num_positions: positions 0 to num_positions - 1 are tried.
        """
        positions = np.empty(len(stored), dtype=np.int64)
        for first in range(0, len(stored), _ROWS_AT_ONCE):
            some = slice(first, first + _ROWS_AT_ONCE)
            positions[some] = self._best_positions(unrotated[some], stored[some], num_positions)
        expected = self.rotated(unrotated, positions)
        return RotatedPositions(positions=positions, distances=relative_distances(stored, expected))

    def _best_positions(
        self, unrotated: NDArray[np.float32], stored: NDArray[np.float32], num_positions: int
    ) -> NDArray[np.int64]:
        """The position of each row whose angles fit best, shape [n], int64."""
        # The angle of each pair over all heads: of their products, those of long pairs count most.
        with np.errstate(invalid="ignore", over="ignore"):
            products = (self._pairs(unrotated).conj() * self._pairs(stored)).sum(axis=1)
        # Noise is relative: a pair tells its angle as well as another ten times as long, so that the
        # pairs which turn fast, and tell neighbours apart, count beside long ones that turn slowly.
        lengths = np.abs(products)
        tells = np.isfinite(lengths) & (lengths > 0)
        angles = np.where(tells, products, 0) / np.sqrt(np.where(tells, lengths, 1))
        parts = np.concatenate((angles.real, angles.imag), axis=1, dtype=np.float32)
        best = np.full(len(stored), -np.inf, dtype=np.float32)
        positions = np.zeros(len(stored), dtype=np.int64)
        for first in range(0, num_positions, _POSITIONS_AT_ONCE):
            tried = np.arange(first, min(first + _POSITIONS_AT_ONCE, num_positions))
            turns = self._turns(tried)
            scores = parts @ np.concatenate((turns.real, turns.imag), axis=1).T
            places = scores.argmax(axis=1)
            found = np.take_along_axis(scores, places[:, None], axis=1)[:, 0]
            is_better = found > best
            best[is_better] = found[is_better]
            positions[is_better] = tried[places[is_better]]
        return positions

    def _turns(self, positions: NDArray[np.int64]) -> NDArray[np.complex64]:
        """e^(i angle) of each pair at each position, shape [n, rotary_dim / 2], complex64."""
        angles = positions[:, None] * self.inverse_frequencies
        turns = np.empty(angles.shape, dtype=np.complex64)
        turns.real = np.cos(angles)
        turns.imag = np.sin(angles)
        return turns

    def _pairs(self, rows: NDArray[np.float32]) -> NDArray[np.complex64]:
        """The pairs of rows, [n, heads, head_dim], as complex numbers, [n, heads, rotary_dim / 2]."""
        turning = rows[..., self.first_dim : self.first_dim + self.rotary_dim]
        pairs = np.empty((*rows.shape[:-1], len(self.inverse_frequencies)), dtype=np.complex64)
        firsts, seconds = self._halves(turning)
        pairs.real, pairs.imag = firsts, seconds
        return pairs

    def _halves(
        self, turning: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Views of the first and of the second elements of all pairs of a rotary part."""
        if self.layout is RopeLayout.INTERLEAVED:
            return turning[..., 0::2], turning[..., 1::2]
        half = self.rotary_dim // 2
        return turning[..., :half], turning[..., half:]

    def _turned(
        self, rows: NDArray[np.float32], turns: NDArray[np.complex64]
    ) -> NDArray[np.float32]:
        """Rows whose pairs are multiplied by one number a row and pair, [n, rotary_dim / 2]."""
        turned = np.array(rows, dtype=np.float32, order="C")
        pairs = self._pairs(turned)
        pairs *= turns[:, None, :]
        turning = turned[..., self.first_dim : self.first_dim + self.rotary_dim]
        firsts, seconds = self._halves(turning)
        firsts[...], seconds[...] = pairs.real, pairs.imag
        return turned

    def to_json(self) -> str:
        """The rope as text, for a file's metadata; `from_json` gives the same numbers back."""
        return json.dumps(
            {
                "inverse_frequencies": self.inverse_frequencies.tolist(),
                "head_dim": self.head_dim,
                "layout": str(self.layout),
                "first_dim": self.first_dim,
                "factor": self.factor,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Rope:
        """Read what `to_json` wrote.

        Raises:
            ValuesInvalid: the text is no such object, or its numbers make no rope.
        """
        try:
            values = json.loads(text)
            head_dim, first_dim = index(values["head_dim"]), index(values.get("first_dim", 0))
            frequencies = np.array(values["inverse_frequencies"], dtype=np.float64)
            layout = RopeLayout(values.get("layout", RopeLayout.HALF))
            factor = float(values.get("factor", 1.0))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise ValuesInvalid(
                "the rope is no JSON object of inverse_frequencies, head_dim, layout, first_dim "
                "and factor",
                hint="write it with Rope.to_json",
            ) from None
        if not 0 < head_dim <= _MAX_HEAD_DIM:
            raise ValuesInvalid(f"the rope's head_dim is {head_dim}", hint="give a head's elements")
        return cls(
            inverse_frequencies=frequencies,
            head_dim=head_dim,
            layout=layout,
            first_dim=first_dim,
            factor=factor,
        )


def plain_frequencies(*, theta: float, rotary_dim: int) -> NDArray[np.float64]:
    """The inverse frequencies of a rope without scaling.

    Args:
        theta: the base, such as 10000.
        rotary_dim: elements of a head that turn.

    Returns:
        shape [rotary_dim / 2], float64.
    """
    return theta ** -(np.arange(0, rotary_dim, 2, dtype=np.float64) / rotary_dim)


def relative_distances(
    rows: NDArray[np.float32], expected: NDArray[np.float32]
) -> NDArray[np.float32]:
    """How far rows are from those expected, over the lengths of these.

    Args:
        rows: shape [n, ...], float32.
        expected: of the same shape, float32.

    Returns:
        shape [n], float32; infinity where the expected row is zero or a row is not finite.
    """
    flat = rows.reshape(len(rows), -1).astype(np.float64)
    wanted = expected.reshape(len(expected), -1).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        gaps = np.linalg.norm(flat - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
        distances = np.where(np.isfinite(gaps), gaps, np.inf)
    return distances.astype(np.float32)
