"""Where the slots of a pool's columns lie in memory, and which columns lie alike."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.torch_module import torch
from kvaudit.constants import SOURCE_ALIGNMENT_BYTES


class SlotColumn(Protocol):
    """One layer and half: slot s is row s // page_size * page_step + s % page_size * slot_step.

    Fields:
        rows: shape [n, dims...], an integer type; any strides; rows may overlap.
        page_size: slots a page.
        page_step: rows from a page to the next.
        slot_step: rows from a slot to the next within a page.
    """

    @property
    def rows(self) -> torch.Tensor: ...  # noqa: D102 - the class docstring says it
    @property
    def page_size(self) -> int: ...  # noqa: D102
    @property
    def page_step(self) -> int: ...  # noqa: D102
    @property
    def slot_step(self) -> int: ...  # noqa: D102


class SlotGeometry(NamedTuple):
    """What columns have in common that one launch folds.

    Fields:
        is_dense: whether a slot's bytes lie together, in order.
        row_bytes: bytes a slot.
        page_size: slots a page.
        page_stride: bytes from a page to the next.
        slot_stride: bytes from a slot to the next within a page; 0 without pages.
        phase: where the first slot starts, modulo SOURCE_ALIGNMENT_BYTES: a column that is not
            aligned must not slow down those that are.
    """

    is_dense: bool
    row_bytes: int
    page_size: int
    page_stride: int
    slot_stride: int
    phase: int

    @classmethod
    def of(cls, column: SlotColumn) -> SlotGeometry:
        """How a column lies."""
        rows, item_bytes = column.rows, column.rows.element_size()
        shape, strides = tuple(rows.shape), tuple(rows.stride())
        row_items = math.prod(shape[1:])
        return cls(
            is_dense=_is_dense(shape[1:], strides[1:]),
            row_bytes=row_items * item_bytes,
            page_size=column.page_size,
            page_stride=column.page_step * strides[0] * item_bytes,
            slot_stride=column.slot_step * strides[0] * item_bytes if column.page_size > 1 else 0,
            phase=rows.data_ptr() % SOURCE_ALIGNMENT_BYTES,
        )

    def offsets(self, slots: torch.Tensor) -> torch.Tensor:
        """Bytes from the column's first slot to each of the slots, shape [n], int64."""
        pages = slots // self.page_size
        return pages * self.page_stride + (slots - pages * self.page_size) * self.slot_stride

    def reach(self, slots: NDArray[np.int64]) -> int:
        """The largest of their offsets; slots, shape [n], int64, are at least one."""
        if self.page_stride >= self.page_size * self.slot_stride:
            slots = slots.max(keepdims=True)
        return int(self.offsets(torch.from_numpy(slots)).max())


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements of a shape follow one another in memory without a gap."""
    step = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def widest(rows: torch.Tensor) -> torch.Tensor:
    """The same memory in wider elements, where its strides allow: fewer of them to gather."""
    steps = (rows.shape[-1], rows.storage_offset(), *rows.stride()[:-1])
    for dtype in (torch.int64, torch.int32, torch.int16):
        ratio = dtype.itemsize // rows.element_size()
        if (
            ratio > 1
            and rows.stride(-1) == 1
            and rows.data_ptr() % dtype.itemsize == 0
            and all(step % ratio == 0 for step in steps)
        ):
            return rows.view(dtype)
    return rows
