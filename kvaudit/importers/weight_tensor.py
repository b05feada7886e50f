"""A weight of a model, read in rows, so that an embedding never lies in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightTensor:
    """One tensor of a checkpoint.

    Fields:
        name: its name in the file.
        shape: its shape, rows first.
        dtype: the element type that the model computes in: `bfloat16`; of a quantised one float32.
        read: gives the rows [first, last) as float32, shape [last - first, *shape[1:]].
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[int, int], NDArray[np.float32]]

    def whole(self) -> NDArray[np.float32]:
        """All rows, shape as of the tensor, float32."""
        return self.read(0, self.shape[0])


class TensorSet(Protocol):
    """The tensors of one model, under the names that its makers give them."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all tensors."""
        ...

    def tensor(self, name: str) -> WeightTensor:
        """One of them.

        Raises:
            InputError: its file cannot be read, or is damaged.
        """
        ...
