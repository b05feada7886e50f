"""What the kernels take beside their inputs in `kernels.array_forms`.

What an engine stores as int64 but the kernels hash is viewed as uint64; what a launch does not give
has an array that stands for it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import VIOLATION_FIELDS
from kvaudit.kernels.array_forms import read_only

_Scalar = TypeVar("_Scalar", bound=np.generic)


def hashed_input(array: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """An int64 or uint64 input viewed as uint64: C-contiguous, read-only."""
    return read_only(array).view(np.uint64)


def hashed_output(array: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A C-contiguous int64 in/out array viewed as uint64, in the same memory."""
    return array.view(np.uint64)


def absent(dtype: type[_Scalar]) -> NDArray[_Scalar]:
    """The empty read-only array that stands for an input that is not given; shape [0]."""
    return read_only(np.empty(0, dtype=dtype))


def single(value: int, dtype: type[Any]) -> NDArray[Any]:
    """A counter or flag of the contracts, shape [1]."""
    return np.array([value], dtype=dtype)


def no_ring() -> NDArray[np.uint64]:
    """A violation ring that keeps no row: reason bits alone are wanted; shape [0, 8], uint64."""
    return np.empty((0, VIOLATION_FIELDS), dtype=np.uint64)
