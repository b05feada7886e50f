"""Weights that are stored in one byte, with scales beside them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

# The scales of a weight, by what is added to its name: of a tensor, of its rows, or of its blocks.
SCALE_NAMES: Final = ("_scale_inv", "_scale")


def scaled(
    weight: NDArray[np.float32], scale: NDArray[np.float32], *, block: tuple[int, ...]
) -> NDArray[np.float32] | None:
    """The weight that is meant.

    Args:
        weight: as stored, shape [rows, columns], float32; may be written to.
        scale: one for all, or one a row, or one a block, float32.
        block: rows and columns of a block; () when there are none.

    Returns:
        shape [rows, columns], float32; None where the scale fits none of these.
    """
    rows, columns = weight.shape
    if scale.size == 1:
        return weight * np.float32(scale.ravel()[0])
    if scale.shape in ((rows,), (rows, 1)):
        by_row: NDArray[np.float32] = weight * scale.reshape(rows, 1)
        return by_row
    if len(block) != 2 or scale.shape != (-(-rows // block[0]), -(-columns // block[1])):  # noqa: PLR2004 - rows and columns
        return None
    for number in range(scale.shape[1]):
        first = number * block[1]
        by_block = np.repeat(scale[:, number], block[0])[:rows]
        weight[:, first : first + block[1]] *= by_block[:, None]
    return weight
