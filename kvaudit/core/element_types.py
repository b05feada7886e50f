"""KV bytes as numbers, by element type, with numpy alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.errors import ValuesInvalid

_SIGN: Final = 0x80
_MAGNITUDE: Final = 0x7F
_Decoder = Callable[[NDArray[Any]], NDArray[np.float32]]
_Encoder = Callable[[NDArray[np.float32]], NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementType:
    """How the numbers of one type are stored.

    Fields:
        name: the name that files and dumpers give it, such as `bfloat16`.
        stored: numpy type of one element's bytes, little-endian.
        significant_bits: bits of the significand, the leading one among them.
        decode: stored elements, any shape, to float32 of that shape.
        encode: float32 to stored elements, rounded to nearest, ties to even; None where no table
            is written in the type.
    """

    name: str
    stored: str
    significant_bits: int
    decode: _Decoder
    encode: _Encoder | None = None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.stored).itemsize


def element_type(name: str) -> ElementType | None:
    """The type that a dumper named, `torch.` before it or not; None when it is not known."""
    return _TYPES.get(name.removeprefix("torch."))


def decoded(data: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    """Rows of bytes as numbers.

    Args:
        data: KV bytes, shape [n, row_bytes], uint8.
        dtype: their element type, one that `element_type` knows.

    Returns:
        shape [n, num_elements], float32.

    Raises:
        ValuesInvalid: the type is not known, or row_bytes holds no whole number of elements.
    """
    kind = _known(dtype)
    if data.shape[1] % kind.itemsize:
        raise ValuesInvalid(
            f"rows of {data.shape[1]} bytes hold no whole number of {kind.name} elements",
            hint="correct the column's dtype",
        )
    return kind.decode(np.ascontiguousarray(data).view(kind.stored))


def encoded(values: NDArray[np.float32], dtype: str) -> NDArray[np.uint8]:
    """Rows of numbers as bytes, rounded to nearest, ties to even.

    Args:
        values: shape [n, num_elements], float32.
        dtype: float32, float16 or bfloat16.

    Returns:
        shape [n, num_elements * itemsize], uint8.

    Raises:
        ValuesInvalid: the type is none of these.
    """
    kind = _known(dtype)
    if kind.encode is None:
        raise ValuesInvalid(
            f"{kind.name} is no type to write rows in", hint="take float32, float16 or bfloat16"
        )
    return np.ascontiguousarray(kind.encode(values)).view(np.uint8)


def _known(dtype: str) -> ElementType:
    kind = element_type(dtype)
    if kind is None:
        raise ValuesInvalid(f"the element type {dtype!r} is not known", hint=_TYPES_HINT)
    return kind


def _from_bfloat16(stored: NDArray[Any]) -> NDArray[np.float32]:
    words = stored.astype(np.uint32)
    words <<= np.uint32(16)
    return words.view(np.float32)


def _to_bfloat16(values: NDArray[np.float32]) -> NDArray[Any]:
    words = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    # Half of the last place that stays, and one more where that place is odd.
    rounded = words + (np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1)))
    # Rounding would carry a NaN's payload into an infinity, or past the sign.
    rounded = np.where(np.isnan(values), words | np.uint32(0x400000), rounded)
    return (rounded >> np.uint32(16)).astype("<u2")


def _to_float16(values: NDArray[np.float32]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return values.astype("<f2")


def _small_float(exponent_bits: int, *, has_infinity: bool) -> _Decoder:
    """The decoder of a one-byte float: its 256 values, looked up."""
    mantissa_bits = 7 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - 1
    top = (1 << exponent_bits) - 1
    codes = np.arange(256)
    exponents = (codes >> mantissa_bits) & top
    fractions = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    scales = np.exp2(np.maximum(exponents, 1) - bias)
    values = scales * (fractions + (exponents > 0))
    if has_infinity:
        values[exponents == top] = np.where(fractions[exponents == top] == 0, np.inf, np.nan)
    else:
        values[(codes & _MAGNITUDE) == _MAGNITUDE] = np.nan
    numbers = np.where(codes & _SIGN, -values, values).astype(np.float32)

    def decode(stored: NDArray[Any]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = numbers[stored]
        return found

    return decode


def _as_float32(stored: NDArray[Any]) -> NDArray[np.float32]:
    return stored.astype(np.float32)


_TYPES: Final = {
    kind.name: kind
    for kind in (
        ElementType(
            name="float32",
            stored="<f4",
            significant_bits=24,
            decode=_as_float32,
            encode=lambda values: values.astype("<f4"),
        ),
        ElementType(
            name="float16",
            stored="<f2",
            significant_bits=11,
            decode=_as_float32,
            encode=_to_float16,
        ),
        ElementType(
            name="bfloat16",
            stored="<u2",
            significant_bits=8,
            decode=_from_bfloat16,
            encode=_to_bfloat16,
        ),
        ElementType(
            name="float8_e4m3fn",
            stored="u1",
            significant_bits=4,
            decode=_small_float(4, has_infinity=False),
        ),
        ElementType(
            name="float8_e5m2",
            stored="u1",
            significant_bits=3,
            decode=_small_float(5, has_infinity=True),
        ),
    )
}
_TYPES_HINT: Final = "name it " + ", ".join(_TYPES)
