"""Where the slots of a pool's columns lie in memory, and which columns lie alike."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.torch_module import torch
from kvaudit.constants import SOURCE_ALIGNMENT_BYTES, WORD_BYTES


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
        row_bytes: bytes a slot.
        num_pieces: in how many pieces a slot's bytes lie, one step apart; 0 where they lie otherwise,
            or in pieces that are no whole words.
        piece_stride: bytes from a piece to the next.
        page_size: slots a page.
        page_stride: bytes from a page to the next.
        slot_stride: bytes from a slot to the next within a page; 0 without pages.
        phase: where the first slot starts, modulo SOURCE_ALIGNMENT_BYTES: a column that is not
            aligned must not slow down those that are.
    """

    row_bytes: int
    num_pieces: int
    piece_stride: int
    page_size: int
    page_stride: int
    slot_stride: int
    phase: int

    @classmethod
    def of(cls, column: SlotColumn) -> SlotGeometry:
        """How a column lies."""
        rows, item_bytes = column.rows, column.rows.element_size()
        shape, strides = tuple(rows.shape), tuple(rows.stride())
        row_bytes = math.prod(shape[1:]) * item_bytes
        row_stride = strides[0] * item_bytes
        page_stride = column.page_step * row_stride
        slot_stride = column.slot_step * row_stride if column.page_size > 1 else 0
        phase = rows.data_ptr() % SOURCE_ALIGNMENT_BYTES
        num_pieces, step = _pieces(shape[1:], strides[1:])
        piece_stride = step * item_bytes
        if num_pieces > 1:
            sizes = (row_bytes // num_pieces, piece_stride, page_stride, slot_stride, phase)
            if any(size % WORD_BYTES for size in sizes):
                num_pieces = 0
        return cls(
            row_bytes=row_bytes,
            num_pieces=num_pieces,
            piece_stride=piece_stride,
            page_size=column.page_size,
            page_stride=page_stride,
            slot_stride=slot_stride,
            phase=phase,
        )

    @property
    def piece_bytes(self) -> int:
        """Bytes a piece."""
        return self.row_bytes // self.num_pieces

    @property
    def span_bytes(self) -> int:
        """Bytes from a slot's first to its last one, whatever lies between its pieces."""
        return (self.num_pieces - 1) * self.piece_stride + self.piece_bytes

    def offsets(self, slots: torch.Tensor) -> torch.Tensor:
        """Bytes from the column's first slot to each of the slots, shape [n], int64."""
        pages = slots // self.page_size
        return pages * self.page_stride + (slots - pages * self.page_size) * self.slot_stride

    def reach(self, slots: NDArray[np.int64]) -> int:
        """The largest of their offsets; slots, shape [n], int64, are at least one."""
        if self.page_stride >= self.page_size * self.slot_stride:
            slots = slots.max(keepdims=True)
        return int(self.offsets(torch.from_numpy(slots)).max())


def _pieces(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """In how many pieces elements of a shape lie, each without a gap, and their step in elements.

    The number is 0 where pieces are not all one step apart.
    """
    length, num_pieces, step = 1, 1, 0
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if num_pieces == 1 and stride == length:
            length *= size
        elif num_pieces == 1:
            num_pieces, step = size, stride
        elif stride == num_pieces * step:
            num_pieces *= size
        else:
            return 0, 0
    return num_pieces, step


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
