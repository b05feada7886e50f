"""How arrays become what the kernels take.

numba compiles one specialisation for each combination of dtype, layout and writeability, so every
backend hands over the same kinds: inputs are C-contiguous and read-only, in/out arrays C-contiguous
and writable, and what an engine stores as int64 but the kernels hash is viewed as uint64. KV bytes
keep their row stride. Absent arrays have shape [0], as the contracts say.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import VIOLATION_FIELDS

_Scalar = TypeVar("_Scalar", bound=np.generic)


def _frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """A read-only view; the array itself if it is read-only already."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def signed_input(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """An input of its own dtype: C-contiguous, read-only; copied only where it is strided."""
    return _frozen(np.ascontiguousarray(array))


def hashed_input(array: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """An int64 or uint64 input viewed as uint64: C-contiguous, read-only."""
    return _frozen(np.ascontiguousarray(array)).view(np.uint64)


def hashed_output(array: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A C-contiguous int64 in/out array viewed as uint64, in the same memory."""
    return array.view(np.uint64)


def source_input(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """KV bytes [num_rows, row_bytes], uint8, read-only; rows keep their stride."""
    return _frozen(array)


def absent(dtype: type[_Scalar]) -> NDArray[_Scalar]:
    """The empty read-only array that stands for an input that is not given; shape [0]."""
    return _frozen(np.empty(0, dtype=dtype))


def single(value: int, dtype: type[Any]) -> NDArray[Any]:
    """A counter or flag of the contracts, shape [1]."""
    return np.array([value], dtype=dtype)


def no_ring() -> NDArray[np.uint64]:
    """A violation ring that keeps no row: reason bits alone are wanted; shape [0, 8], uint64."""
    return np.empty((0, VIOLATION_FIELDS), dtype=np.uint64)
