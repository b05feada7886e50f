"""The source hash of every slot of a pool's columns, on the device where they lie.

No KV byte comes to the host, and none is copied on its way to the fold where a slot's bytes lie
together. Columns of one geometry are one source: its rows start at the lowest of their addresses
and are one step apart, the largest that meets every slot of every column. They overlap, and most
are of no slot. So one launch folds many columns, wherever an engine has allocated them:

    address    low             + step                     low + k x step
    column 0   [slot 0][slot 1][slot 2] ..
    column 1                              ..              [slot 0][slot 1] ..
    fold's slot  0       1       2                          k       k + 1

Where a slot's bytes lie apart, as with heads outside of slots, columns are gathered on the device
first, a bounded part at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.launch_kernels import LaunchKernels, device_kernels, on_torch_stream
from kvaudit.backends.page_hashes import fold_pages
from kvaudit.backends.torch_module import torch
from kvaudit.constants import SOURCE_ALIGNMENT_BYTES

# What one launch's slot indices, and what gathered bytes, take on the device at most.
INDEX_BYTES: Final = 64 << 20
SCRATCH_BYTES: Final = 128 << 20
_SLOT_BYTES: Final = np.dtype(np.int64).itemsize


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


def slot_hashes(
    columns: Sequence[SlotColumn],
    slots: NDArray[np.int64],
    *,
    rows_per_page: NDArray[np.int64] | None = None,
    choice: Callable[[torch.device], LaunchKernels] = device_kernels,
) -> list[NDArray[np.int64]]:
    """The source hash of each slot in each column, as a snapshot stores it.

    All launches of a device are enqueued on torch's current stream there, without waiting; then
    its hashes are copied to the host at once.

    Args:
        columns: on CUDA devices, not necessarily on one.
        slots: slots of the pool, shape [n], int64.
        rows_per_page: how many consecutive slots are hashed together, shape [pages], int64, as
            `fold_pages` does; None = each slot has a hash of its own.
        choice: the kernels for a device.

    Returns:
        for each column shape [n], or [pages], int64.

    Raises:
        BackendNotInstalled, NoDevice, DeviceUnsupported: the CUDA kernels cannot run.
        DeviceFailed: a device reported an error.
    """
    by_device: dict[torch.device, list[int]] = {}
    for column_idx, column in enumerate(columns):
        by_device.setdefault(column.rows.device, []).append(column_idx)
    hashes: dict[int, NDArray[np.int64]] = {}
    with cuda_errors_translated():
        # Every device is at work before the first is waited for.
        enqueued = []
        for device, column_indices in by_device.items():
            with on_torch_stream(device):
                fold = _DeviceFold(chosen=choice(device), device=device, slots=slots)
                order, on_device = fold.enqueue([columns[idx] for idx in column_indices])
                if rows_per_page is not None:
                    on_device = fold_pages(on_device, rows_per_page, chosen=fold.chosen)
            enqueued.append(([column_indices[place] for place in order], on_device))
        for column_indices, on_device in enqueued:
            hashes.update(zip(column_indices, _to_host(on_device), strict=True))
    return [hashes[column_idx] for column_idx in range(len(columns))]


class _Geometry(NamedTuple):
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
    def of(cls, column: SlotColumn) -> _Geometry:
        rows = column.rows
        step_bytes = rows.stride(0) * rows.element_size()
        return cls(
            is_dense=bool(rows[:1].is_contiguous()),
            row_bytes=math.prod(rows.shape[1:]) * rows.element_size(),
            page_size=column.page_size,
            page_stride=column.page_step * step_bytes,
            slot_stride=column.slot_step * step_bytes if column.page_size > 1 else 0,
            phase=rows.data_ptr() % SOURCE_ALIGNMENT_BYTES,
        )

    def offsets(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes from the column's first slot to each of the slots, shape [n], int64."""
        pages, in_page = np.divmod(slots, self.page_size)
        offsets: NDArray[np.int64] = pages * self.page_stride + in_page * self.slot_stride
        return offsets


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DeviceFold:
    """The fold of the same slots in the columns of one device.

    Fields:
        chosen: the launchers, and how tensors become their arrays.
        device: where the columns lie.
        slots: shape [n], int64.
    """

    chosen: LaunchKernels
    device: torch.device
    slots: NDArray[np.int64]

    def enqueue(self, columns: Sequence[SlotColumn]) -> tuple[list[int], torch.Tensor]:
        """Enqueue the fold of all columns.

        Returns:
            which column each row of the hashes is of, and the hashes, shape [columns, n], int64.
        """
        hashes = torch.empty((len(columns), len(self.slots)), dtype=torch.int64, device=self.device)
        by_geometry: dict[_Geometry, list[int]] = {}
        for column_idx, column in enumerate(columns):
            by_geometry.setdefault(_Geometry.of(column), []).append(column_idx)
        order: list[int] = []
        for geometry, column_indices in by_geometry.items():
            into = hashes[len(order) : len(order) + len(column_indices)]
            order += column_indices
            if len(self.slots):
                fold = self._in_place if geometry.is_dense else self._gathered
                fold([columns[idx].rows for idx in column_indices], geometry, into)
        return order, hashes

    def _in_place(
        self, columns: Sequence[torch.Tensor], geometry: _Geometry, hashes: torch.Tensor
    ) -> None:
        """Fold columns whose slots' bytes lie together, as many a launch as INDEX_BYTES allow."""
        addresses = np.array([rows.data_ptr() for rows in columns], dtype=np.int64)
        low = int(addresses.min())
        offsets, from_low = geometry.offsets(self.slots), addresses - low
        # One slot of one column has no step at all: then any aligned one will do.
        step_bytes = (
            math.gcd(geometry.page_stride, geometry.slot_stride, *from_low.tolist())
            or SOURCE_ALIGNMENT_BYTES
        )
        source = self.chosen.arrays.rows_at(
            low,
            num_rows=int(from_low.max() + offsets.max()) // step_bytes + 1,
            row_bytes=geometry.row_bytes,
            step_bytes=step_bytes,
        )
        firsts, in_column = (
            self._upload(from_low // step_bytes),
            self._upload(offsets // step_bytes),
        )
        for part in _parts(len(columns), INDEX_BYTES // (_SLOT_BYTES * len(self.slots))):
            starts = (firsts[part, None] + in_column).view(-1)
            self._launch(source, starts, hashes[part].view(-1), row_bytes=geometry.row_bytes)

    def _gathered(
        self, columns: Sequence[torch.Tensor], geometry: _Geometry, hashes: torch.Tensor
    ) -> None:
        """Fold columns whose slots' bytes lie apart, SCRATCH_BYTES of them at a time."""
        parts = list(_parts(len(self.slots), SCRATCH_BYTES // geometry.row_bytes))
        offsets = geometry.offsets(self.slots)
        everything = torch.arange(parts[0].stop, device=self.device)
        index = self._upload(offsets // (columns[0].stride(0) * columns[0].element_size() or 1))
        for rows, column_hashes in zip(columns, hashes, strict=True):
            wide = _widest(rows)
            for part in parts:
                gathered = wide.index_select(0, index[part])
                self._launch(
                    self.chosen.arrays.source(gathered),
                    everything[: len(gathered)],
                    column_hashes[part],
                    row_bytes=geometry.row_bytes,
                )

    def _launch(
        self, source: object, slots: torch.Tensor, hashes: torch.Tensor, *, row_bytes: int
    ) -> None:
        self.chosen.kernels.launch_fold(
            source,
            self.chosen.arrays.signed(slots),
            self.chosen.arrays.hashed_output(hashes),
            1,
            row_bytes,
            row_bytes,
        )

    def _upload(self, values: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device)


def _parts(length: int, most: int) -> Iterator[slice]:
    """Consecutive slices of [0, length), each at most `most` long, but at least one."""
    size = max(1, min(most, length))
    for first in range(0, length, size):
        yield slice(first, min(first + size, length))


def _widest(rows: torch.Tensor) -> torch.Tensor:
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


def _to_host(hashes: torch.Tensor) -> NDArray[np.int64]:
    """One copy into memory of numpy's, which takes large pages where torch does not."""
    host = np.empty(tuple(hashes.shape), dtype=np.int64)
    torch.from_numpy(host).copy_(hashes)
    return host
