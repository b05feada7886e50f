"""A pool's memory seen a slot at a time, and gathered a few rows at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.tensor_memory import check_readable
from kvaudit.core.kv_column import KvWindow, windows_without_digests

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotView:
    """One layer and half of a pool, indexed by slot.

    Slot s is row (s // page_size) * page_step + s % page_size * slot_step of `rows`. Rows may
    overlap and most may be of no slot: they are steps through the pool's memory, so that a strided
    pool is gathered whole rows at a time.

    Fields:
        name: the column's name, such as `kv.k.0`.
        rows: shape [n, heads, dims...], an integer type of the element's size; shares the pool's
            memory, on its device.
        num_slots: slots the pool holds.
        page_size: slots a page; 1 when the tensor has no page dimension.
        page_step: rows from a page to the next.
        slot_step: rows from a slot to the next within a page.
        dtype: element type as torch names it, such as `bfloat16`.
    """

    name: str
    rows: torch.Tensor
    num_slots: int
    page_size: int
    page_step: int
    slot_step: int
    dtype: str

    @classmethod
    def of(cls, paged: torch.Tensor, *, name: str, dtype: str) -> SlotView:
        """View a tensor [num_pages, page_size, heads, dims...] of integers; any strides."""
        num_pages, page_size = paged.shape[:2]
        page_stride, slot_stride = paged.stride()[:2]
        # Without pages a slot is a page, and its stride is the only one that counts.
        step = page_stride if page_size == 1 else math.gcd(page_stride, slot_stride)
        step = step or 1
        page_step, slot_step = page_stride // step, slot_stride // step
        num_slots = num_pages * page_size
        last_row = (num_pages - 1) * page_step + (page_size - 1) * slot_step
        return cls(
            name=name,
            rows=paged.as_strided(
                (last_row + 1 if num_slots else 0, *paged.shape[2:]), (step, *paged.stride()[2:])
            ),
            num_slots=num_slots,
            page_size=page_size,
            page_step=page_step,
            slot_step=slot_step,
            dtype=dtype,
        )

    @property
    def row_bytes(self) -> int:
        """Bytes of one token."""
        return int(self.rows.shape[1:].numel()) * int(self.rows.element_size())

    @property
    def span_bytes(self) -> int:
        """Bytes from a token's first to its last, those between its heads included."""
        dimensions = zip(self.rows.shape[1:], self.rows.stride()[1:], strict=True)
        last = sum((length - 1) * stride for length, stride in dimensions)
        return int(last + 1) * int(self.rows.element_size())

    def first_addresses(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each slot begins in its device's memory, shape [n], int64."""
        step_bytes = int(self.rows.stride(0)) * int(self.rows.element_size())
        addresses: NDArray[np.int64] = self._row_indices(slots) * step_bytes
        return addresses + int(self.rows.data_ptr())

    def _row_indices(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        pages, offsets = np.divmod(slots, self.page_size)
        indices: NDArray[np.int64] = pages * self.page_step + offsets * self.slot_step
        return indices

    def check_readable(self) -> None:
        """Refuse to read a pool whose memory was given back since it was viewed.

        Raises:
            ConfigError: naming the column.
        """
        check_readable(self.rows, self.name)

    def gather(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of each slot, shape [n, row_bytes], uint8; slots are below num_slots.

        The selection runs on the tensor's device; only the selected rows come to the host.

        Raises:
            ConfigError: the pool's memory was given back.
        """
        import torch

        self.check_readable()
        index = torch.from_numpy(self._row_indices(slots))
        selected = self.rows.index_select(0, index.to(self.rows.device))
        flat = selected.reshape(len(slots), self.rows.shape[1:].numel()).contiguous().cpu()
        gathered: NDArray[np.uint8] = flat.view(torch.uint8).numpy()
        return gathered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatheredColumn:
    """A KvColumn that gathers its rows from a pool when they are asked for.

    Fields:
        view: the layer and half.
        slots: slot of each row, shape [num_rows], int64.
    """

    view: SlotView
    slots: NDArray[np.int64]

    @property
    def name(self) -> str:
        """The column's name, such as `kv.k.0`."""
        return self.view.name

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return int(self.slots.shape[0])

    @property
    def row_bytes(self) -> int:
        """Bytes a row holds."""
        return self.view.row_bytes

    @property
    def read_bytes(self) -> int:
        """A digest covers the whole row."""
        return self.view.row_bytes

    @property
    def dtype(self) -> str:
        """Element type as torch names it."""
        return self.view.dtype

    @property
    def is_resident(self) -> bool:
        """The rows lie all over the pool."""
        return False

    def windows(self) -> Iterator[KvWindow]:
        """All rows in ascending order, at most WINDOW_BYTES of them on the host at a time."""
        return windows_without_digests(self)

    def read_rows(self, first_row: int, last_row: int) -> NDArray[np.uint8]:
        """The bytes of rows [first_row, last_row), shape [n, row_bytes], uint8."""
        return self.view.gather(self.slots[first_row:last_row])
