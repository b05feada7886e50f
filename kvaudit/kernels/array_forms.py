"""One form for every array that a CPU kernel sees, so that each kernel is compiled once.

numba compiles a kernel anew for read-only, strided and unaligned arguments. Inputs therefore enter
read-only, and everything enters contiguous.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

# An array of numpy's, of numba-cuda's, or of its simulator's: the kernels know which, and numba-cuda
# has no type for its own.
KernelArray: TypeAlias = Any

_Scalar = TypeVar("_Scalar", bound=np.generic)


def frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """The same memory behind a read-only view; strides stay."""
    view = array.view()
    view.flags.writeable = False
    return view


def read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """The same values, contiguous, behind a read-only view; copied only where they are strided."""
    return frozen(np.ascontiguousarray(array))


def widened_rows(rows: NDArray[Any], *, writeable: bool = False) -> NDArray[Any]:
    """Strided rows as contiguous ones that reach to where the next row begins.

    What lies past the row's own length is another's: a kernel never touches it. Read-only rows
    that overlap or descend are copied.

    Args:
        rows: shape [n, m]; stride(1) is one element.
        writeable: whether rows are written to; they then lie in ascending order, not overlapping.

    Returns:
        shape [n, row stride], the dtype of `rows`.
    """
    num_rows, row_length = rows.shape
    row_stride, ragged = divmod(rows.strides[0], rows.itemsize)
    if num_rows <= 1 or (row_stride == row_length and not ragged):
        wide = rows
    elif writeable or (row_stride > row_length and not ragged):
        wide = as_strided(rows, shape=(num_rows, row_stride), strides=rows.strides)
    else:
        wide = np.ascontiguousarray(rows)
    view = wide.view()
    view.flags.writeable = writeable
    return view
