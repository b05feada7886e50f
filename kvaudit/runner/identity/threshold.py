"""How far a layer-0 row may be from what it should be: read off the rows of the dump."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.element_types import element_type
from kvaudit.core.identity import Threshold

# Of rows of one content, so many pairs are looked at, and of different ones.
MAX_PAIRS: Final = 1 << 14
MIN_PAIRS: Final = 8
# What is no fault whatever a small dump's own noise: several times the most that batch shapes made
# of one row on an H200, 2e-3 in bfloat16 and 3e-2 stored in a byte.
_FLOORS: Final = {4: 0.01, 2: 0.05, 1: 0.15}
_SEPARATION_QUANTILE: Final = 0.05
# The noise is that percentile of the distances.
_QUANTILE: Final = 0.99
_PROVED_QUANTILE: Final = 0.9
# The threshold is so many times the noise, as far as that leaves room below the separation.
_MARGIN: Final = 4.0
# Equal content of one token in fewer pairs than that: it depends on more than the token.
MIN_AGREEING: Final = 0.5


def floor_of(dtype: str) -> float:
    """The smallest threshold of an element type that `element_type` knows."""
    kind = element_type(dtype)
    return _FLOORS[4 if kind is None else kind.itemsize]


def ceiling_of(different: NDArray[np.float64]) -> float:
    """Half of what separates rows of different contents, distances shape [n], float64."""
    return separation_of(different) / 2


def separation_of(different: NDArray[np.float64]) -> float:
    """A low percentile of the distances between different contents, shape [n], float64.

    Some of them are of one content where there is a fault: not so few that the lowest counts.
    """
    if not different.size:
        return 0.0
    return float(np.quantile(different, _SEPARATION_QUANTILE, method="lower"))


def proved_threshold(
    same: NDArray[np.float64],
    different: NDArray[np.float64],
    *,
    floor: float,
    min_pairs: int = 1,
) -> Threshold | str:
    """The threshold of rows that are known to depend on no more than they should, or why none.

    A table of the model proves it, or V where K is judged. So a few pairs do, and rows that are a
    little off are rather faults than noise.

    Args:
        same: distances of rows from what they should be, shape [n], float64.
        different: distances of rows of different contents, shape [m], float64.
        floor: the smallest threshold.
        min_pairs: distances that are needed.
    """
    return _threshold(same, different, floor=floor, min_pairs=min_pairs, quantile=_PROVED_QUANTILE)


def threshold_of(
    same: NDArray[np.float64], different: NDArray[np.float64], *, floor: float
) -> Threshold | str:
    """The threshold that the dump's own distances allow, or why they allow none.

    Args:
        same: distances of rows that should be of one content, shape [n], float64; what is at or
            above half the separation is taken for a fault, not for noise.
        different: distances of rows of different contents, shape [m], float64.
        floor: the smallest threshold.

    Returns:
        the threshold, or the reason in words.
    """
    return _threshold(same, different, floor=floor, min_pairs=MIN_PAIRS, quantile=_QUANTILE)


def _threshold(
    same: NDArray[np.float64],
    different: NDArray[np.float64],
    *,
    floor: float,
    min_pairs: int,
    quantile: float,
) -> Threshold | str:
    if len(same) < min_pairs:
        return "too few tokens occur twice"
    separation, ceiling = separation_of(different), ceiling_of(different)
    if ceiling <= floor:
        return "rows of different tokens are too alike to tell apart"
    agreeing = same[same < ceiling]
    if len(agreeing) < MIN_AGREEING * len(same) or not agreeing.size:
        share = 100 - 100 * len(agreeing) // len(same)
        return f"rows of one token differ in {share}% of the pairs: they depend on more than it"
    noise = float(np.quantile(agreeing, quantile, method="higher"))
    if 2 * noise > ceiling:
        return f"rows of one token differ by {noise:.2g}, those of two by {separation:.2g}"
    return Threshold(
        distance=min(max(floor, _MARGIN * noise), ceiling),
        noise=noise,
        separation=separation,
        pairs=len(same),
    )
