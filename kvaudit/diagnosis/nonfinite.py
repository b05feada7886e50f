"""NaN and infinities in KV bytes, by element type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Float:
    """Which bits of an element tell that it is no finite number.

    Fields:
        unsigned: integer type of the same width, little-endian.
        magnitude: mask that leaves the sign out.
        first: the least magnitude that is an infinity or a NaN.
    """

    unsigned: str
    magnitude: int
    first: int


_FLOATS: Final = {
    "float64": _Float(unsigned="<u8", magnitude=(1 << 63) - 1, first=0x7FF << 52),
    "float32": _Float(unsigned="<u4", magnitude=0x7FFFFFFF, first=0x7F800000),
    "float16": _Float(unsigned="<u2", magnitude=0x7FFF, first=0x7C00),
    "bfloat16": _Float(unsigned="<u2", magnitude=0x7FFF, first=0x7F80),
    "float8_e5m2": _Float(unsigned="u1", magnitude=0x7F, first=0x7C),
    "float8_e4m3fn": _Float(unsigned="u1", magnitude=0x7F, first=0x7F),
}


def knows(dtype: str) -> bool:
    """Whether a type, as the dumper named it, can hold a NaN and is known."""
    return _plain(dtype) in _FLOATS


def nonfinite_elements(data: NDArray[np.uint8], dtype: str) -> NDArray[np.bool_]:
    """Which elements of rows are NaN or infinite.

    Args:
        data: KV bytes, shape [n, num_bytes], uint8. Bytes that make no whole element are left out.
        dtype: their element type, one that `knows` knows.

    Returns:
        shape [n, num_elements], bool.
    """
    kind = _FLOATS[_plain(dtype)]
    itemsize = np.dtype(kind.unsigned).itemsize
    num_bytes = data.shape[1] // itemsize * itemsize
    elements = np.ascontiguousarray(data[:, :num_bytes]).view(kind.unsigned)
    found: NDArray[np.bool_] = (elements & kind.magnitude) >= kind.first
    return found


def _plain(dtype: str) -> str:
    return dtype.removeprefix("torch.")
