"""The shared conformance vectors (`tests/data/vectors/README.md`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VECTORS = Path(__file__).parents[1] / "data" / "vectors"


class VectorCase(NamedTuple):
    """One launch: its inputs and the outputs that every backend must reproduce, by name."""

    inputs: dict[str, NDArray[Any]]
    outputs: dict[str, NDArray[Any]]


@cache
def vector_cases(family: str) -> list[VectorCase]:
    """All cases of `verify`, `write` or `plan`; shared by the tests, which copy what they change."""
    with np.load(VECTORS / f"{family}.npz") as file:
        arrays = dict(file)
    cases = [VectorCase({}, {}) for _ in range(int(arrays.pop("cases")))]
    for key, value in arrays.items():
        case, side, name = key.removeprefix("c").split(".", 2)
        {"in": cases[int(case)].inputs, "out": cases[int(case)].outputs}[side][name] = value
    return cases
