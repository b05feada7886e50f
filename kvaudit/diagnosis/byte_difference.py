"""Where the bytes of one slot and column part from those of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.kernels.hash.arrays import bits_set

_HEX_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteDifference:
    """Where the bytes of one slot and column part.

    Fields:
        byte: the first byte that differs.
        num_bytes: bytes that differ.
        num_bits: bits of them that do.
        row_bytes: bytes of the slot in this column.
        left: hex of the left dump from there on.
        right: hex of the right one.
    """

    byte: int
    num_bytes: int
    num_bits: int
    row_bytes: int
    left: str
    right: str

    def words(self) -> str:
        """`byte 209 of 1,024 is 3e, and not 3f`."""
        words = (
            f"byte {self.byte:,} of {self.row_bytes:,} is {self.right[:2]}, and not {self.left[:2]}"
        )
        rest = self.num_bytes - 1
        return f"{words}, and {rest:,} more differ" if rest else words


def byte_difference(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> ByteDifference | None:
    """Compare two rows of bytes, shape [row_bytes], uint8 each; None where they are equal."""
    found = np.flatnonzero(left != right)
    if not found.size:
        return None
    first = int(found[0])
    shown = slice(first, first + _HEX_BYTES)
    return ByteDifference(
        byte=first,
        num_bytes=len(found),
        num_bits=int(bits_set((left ^ right)[found]).sum()),
        row_bytes=len(left),
        left=left[shown].tobytes().hex(),
        right=right[shown].tobytes().hex(),
    )
