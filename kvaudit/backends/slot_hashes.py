"""The source hash of every slot of a pool's columns, on the device where they lie.

No KV byte comes to the host, and none is copied on its way to the fold where a slot's bytes lie
together, or in pieces one step apart. Columns of one geometry are one source: its rows start at the lowest of their addresses
and are one step apart, the largest that meets every slot of every column. They overlap, and most
are of no slot. So one launch folds many columns, wherever an engine has allocated them:

    address    low             + step                     low + k x step
    column 0   [slot 0][slot 1][slot 2] ..
    column 1                              ..              [slot 0][slot 1] ..
    fold's slot  0       1       2                          k       k + 1

Where a slot's bytes lie in pieces, as with heads outside of slots, its row reaches to the last one.
Where they lie apart in any other way, columns are gathered on the device first, a bounded part at a
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.launch_kernels import LaunchKernels, device_kernels, on_torch_stream
from kvaudit.backends.page_hashes import PageFold
from kvaudit.backends.slot_geometry import SlotColumn, SlotGeometry, widest
from kvaudit.backends.torch_module import torch
from kvaudit.constants import SOURCE_ALIGNMENT_BYTES

# What one launch's slot indices, and what gathered bytes, take on the device at most.
INDEX_BYTES: Final = 32 << 20
SCRATCH_BYTES: Final = 128 << 20
_SLOT_BYTES: Final = np.dtype(np.int64).itemsize

_Columns = TypeVar("_Columns", list[torch.Tensor], torch.Tensor)


def slot_hashes(
    columns: Sequence[SlotColumn],
    slots: NDArray[np.int64],
    *,
    rows_per_page: NDArray[np.int64] | None = None,
    choice: Callable[[torch.device], LaunchKernels] = device_kernels,
) -> list[NDArray[np.int64]]:
    """The source hash of each slot in each column, as a snapshot stores it.

    A device's launches are enqueued on torch's current stream there, without waiting. Hashes come
    to the host part by part, while later columns are folded.

    Args:
        columns: on CUDA devices, not necessarily on one; or of the host, for kernels that run there.
        slots: slots of the pool, shape [n], int64.
        rows_per_page: how many consecutive slots are hashed together, shape [pages], int64, as
            `PageFold` does; None = each slot has a hash of its own.
        choice: the kernels for a device.

    Returns:
        for each column shape [n], or [pages], int64.

    Raises:
        BackendNotInstalled, NoDevice, DeviceUnsupported: the CUDA kernels cannot run.
        DeviceFailed: a device reported an error.
    """
    if not len(slots):
        return [np.empty(0, dtype=np.int64) for _ in columns]
    by_device: dict[torch.device, list[int]] = {}
    for column_idx, column in enumerate(columns):
        by_device.setdefault(column.rows.device, []).append(column_idx)
    on_host: dict[int, torch.Tensor] = {}
    with cuda_errors_translated():
        # Every device is at work before the first is waited for.
        copies = []
        for device, column_indices in by_device.items():
            copy = _CopyToHost(device)
            copies.append(copy)
            with on_torch_stream(device):
                fold = _DeviceFold(
                    chosen=choice(device),
                    device=device,
                    slots=slots,
                    on_device=torch.from_numpy(slots).to(device),
                )
                by_page = None if rows_per_page is None else PageFold(rows_per_page, device)
                for places, hashes in fold.parts([columns[idx] for idx in column_indices]):
                    wanted = hashes if by_page is None else by_page.fold(hashes, fold.chosen)
                    arriving = copy.enqueue(wanted)
                    on_host |= {
                        column_indices[place]: arriving[i] for i, place in enumerate(places)
                    }
        for copy in copies:
            copy.wait()
    return [on_host[column_idx].numpy() for column_idx in range(len(columns))]


class _CopyToHost:
    """Copies a device's hashes into pinned memory, beside what its current stream goes on with."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def enqueue(self, hashes: torch.Tensor) -> torch.Tensor:
        """Where the hashes arrive, shape and dtype as given, after `wait`."""
        if self._stream is None:
            return hashes
        arriving = torch.empty(hashes.shape, dtype=hashes.dtype, pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(hashes.device))
        with torch.cuda.stream(self._stream):
            arriving.copy_(hashes, non_blocking=True)
        # Their memory is for the stream that folds to use again, once this one is done with it.
        hashes.record_stream(self._stream)
        return arriving

    def wait(self) -> None:
        """Wait until all hashes have arrived."""
        if self._stream is not None:
            self._stream.synchronize()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DeviceFold:
    """The fold of the same slots in the columns of one device.

    Fields:
        chosen: the launchers, and how tensors become their arrays.
        device: where the columns lie.
        slots: shape [n], int64.
        on_device: the same on the device.
    """

    chosen: LaunchKernels
    device: torch.device
    slots: NDArray[np.int64]
    on_device: torch.Tensor

    def parts(self, columns: Sequence[SlotColumn]) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
        """Enqueue the fold of all columns, a part of them at a time.

        Yields:
            which columns a part is of, and their hashes, shape [columns, n], int64.
        """
        by_geometry: dict[SlotGeometry, list[int]] = {}
        for column_idx, column in enumerate(columns):
            by_geometry.setdefault(SlotGeometry.of(column), []).append(column_idx)
        for geometry, column_indices in by_geometry.items():
            fold = self._in_place if geometry.num_pieces else self._gathered
            first = 0
            for hashes in fold([columns[idx].rows for idx in column_indices], geometry):
                yield column_indices[first : first + len(hashes)], hashes
                first += len(hashes)

    def _in_place(
        self, columns: list[torch.Tensor], geometry: SlotGeometry
    ) -> Iterator[torch.Tensor]:
        """Fold columns where their slots' bytes lie, as many a launch as INDEX_BYTES allow."""
        addresses = np.array([rows.data_ptr() for rows in columns], dtype=np.int64)
        low = int(addresses.min())
        from_low = addresses - low
        # One slot of one column has no step at all: then any aligned one will do.
        step_bytes = (
            math.gcd(geometry.page_stride, geometry.slot_stride, *from_low.tolist())
            or SOURCE_ALIGNMENT_BYTES
        )
        source = self.chosen.arrays.rows_at(
            low,
            num_rows=(int(from_low.max()) + geometry.reach(self.slots)) // step_bytes + 1,
            row_bytes=geometry.span_bytes,
            step_bytes=step_bytes,
        )
        firsts = torch.from_numpy(from_low // step_bytes).to(self.device)
        in_column = geometry.offsets(self.on_device) // step_bytes
        for part in self._column_parts(firsts):
            starts = part[:, None] + in_column
            hashes = torch.empty_like(starts)
            entries = self.chosen.arrays.signed(starts.view(-1))
            into = self.chosen.arrays.hashed_output(hashes.view(-1))
            kernels, row_bytes = self.chosen.kernels, geometry.row_bytes
            if geometry.num_pieces == 1:
                kernels.launch_fold(source, entries, into, 1, row_bytes, row_bytes)
            else:
                pieces = (geometry.num_pieces, geometry.piece_stride, geometry.piece_bytes)
                kernels.launch_fold_pieces(source, entries, into, *pieces)
            yield hashes

    def _gathered(
        self, columns: list[torch.Tensor], geometry: SlotGeometry
    ) -> Iterator[torch.Tensor]:
        """Fold columns whose slots' bytes lie apart, SCRATCH_BYTES of them at a time."""
        rows_per_part = min(max(1, SCRATCH_BYTES // geometry.row_bytes), len(self.slots))
        step_bytes = columns[0].stride(0) * columns[0].element_size()
        index = (geometry.offsets(self.on_device) // max(1, step_bytes)).split(rows_per_part)
        scratch = torch.empty(
            (rows_per_part, geometry.row_bytes), dtype=torch.uint8, device=self.device
        )
        every_row = torch.arange(rows_per_part, device=self.device)
        # All parts but the last are as long as the first: their arrays are made once.
        sources = {
            length: (
                self.chosen.arrays.source(scratch[:length]),
                self.chosen.arrays.signed(every_row[:length]),
            )
            for length in {len(part) for part in index}
        }
        for columns_part in self._column_parts(columns):
            hashes = torch.empty(
                (len(columns_part), len(self.slots)), dtype=torch.int64, device=self.device
            )
            for rows, column_hashes in zip(columns_part, hashes, strict=True):
                wide = widest(rows)
                gathered = scratch.view(wide.dtype).view(-1, *wide.shape[1:])
                for part, into in zip(index, column_hashes.split(rows_per_part), strict=True):
                    torch.index_select(wide, 0, part, out=gathered[: len(part)])
                    source, entries = sources[len(part)]
                    self.chosen.kernels.launch_fold(
                        source,
                        entries,
                        self.chosen.arrays.hashed_output(into),
                        *(1, geometry.row_bytes, geometry.row_bytes),
                    )
            yield hashes

    def _column_parts(self, columns: _Columns) -> Iterator[_Columns]:
        """Consecutive columns whose slot indices take INDEX_BYTES at most, but at least one."""
        size = max(1, INDEX_BYTES // (_SLOT_BYTES * len(self.slots)))
        for first in range(0, len(columns), size):
            yield columns[first : first + size]
