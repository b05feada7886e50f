"""The backend of a CUDA device: windows are proven on the host and folded over there."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import wraps
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.backends.column_upload import ColumnUpload, Load
from kvaudit.backends.cuda_device import usable_devices
from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.cuda_staging import Staging
from kvaudit.backends.device_arrays import DeviceArrays
from kvaudit.backends.fold_lane import FoldLane
from kvaudit.backends.kernel_backend import KernelBackend
from kvaudit.backends.kernel_set import KernelSet, kernel_set
from kvaudit.backends.shipments import (
    compare_digests,
    largest_shipment,
    picked_hashes,
    shipments,
)
from kvaudit.core.backend import Backend
from kvaudit.core.kv_column import KvColumn
from kvaudit.errors import BackendError
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.compilation import cache_folder, needs_compilation
from kvaudit.kernels.cuda_module import SIMULATED, cuda, on_stream
from kvaudit.kernels.digest import numba_cuda as digest_kernels
from kvaudit.kernels.digest import numbers
from kvaudit.kernels.fold import numba_cuda as fold_kernels
from kvaudit.kernels.hash import numba_cuda as hash_kernels
from kvaudit.kernels.row_threads import feed, num_threads
from kvaudit.kernels.verify import numba_cuda as verify_kernels
from kvaudit.kernels.write import numba_cpu as host_write

_KERNELS = (
    *digest_kernels.KERNELS,
    *fold_kernels.KERNELS,
    *hash_kernels.KERNELS,
    *verify_kernels.KERNELS,
)
# While the hashes of one column return, the windows of the next are under way.
_NUM_LANES = 2
# Of rows wider than a buffer takes: one is filled, one is folded.
_NUM_WIDE_BUFFERS = 2
# numba-cuda breaks where two threads load a kernel at once, and its simulator where they launch one.
_launching = threading.Lock()


def _in_turn(launch: Callable[..., None]) -> Callable[..., None]:
    """A launcher that one thread of the process is in at a time."""

    @wraps(launch)
    def launch_alone(*arguments: Any) -> None:  # noqa: ANN401 - the contract's
        with _launching:
            launch(*arguments)

    return launch_alone


_launch_digest = _in_turn(digest_kernels.launch_digest)


class CudaBackend(KernelBackend):
    """Runs on one device. `availability.choose` makes sure that there is one.

    All device memory is allocated once and kept: buffers, and arrays of 8 bytes a row of a column.

    Args:
        device: the device's name, for people.
        device_idx: its number; None = numba-cuda's current one.

    Raises:
        DeviceFailed: the device has too little memory left.
    """

    name = "cuda"
    # Callers prepare their entries beside each other; the device takes one call at a time.
    max_callers = num_threads()
    max_folds = _NUM_LANES

    def __init__(self, *, device: str, device_idx: int | None = None) -> None:
        kernels = kernel_set("numba_cuda")
        on_device = {each.name: _in_turn(getattr(kernels, each.name)) for each in fields(kernels)}
        super().__init__(KernelSet(**on_device | {"launch_write": host_write.launch_write}))
        self.device = device
        self._calling = threading.Lock()
        self._arrays = DeviceArrays()
        self._records: tuple[weakref.ref[NDArray[np.int64]], KernelArray] | None = None
        with cuda_errors_translated():
            current = cuda.gpus.current or cuda.gpus[0]
            self._device = current if device_idx is None else cuda.gpus[device_idx]
            with self._device:
                self._stream = cuda.stream()
                self._staging = Staging()
                self._lanes = [FoldLane() for _ in range(_NUM_LANES)]
        self._free_lanes = SimpleQueue[FoldLane]()
        for lane in self._lanes:
            self._free_lanes.put(lane)

    @property
    def device_bytes(self) -> int:
        """Device memory that it holds, which is the most that it held; see `core.backend`."""
        records = 0 if self._records is None else int(self._records[1].nbytes)
        lanes = sum(lane.num_bytes for lane in self._lanes)
        return self._staging.device_bytes + lanes + self._arrays.num_bytes + records

    def spread(self, num_jobs: int) -> Sequence[Backend]:
        """This backend and one on each other device; see `core.backend`."""
        backends: list[Backend] = [self]
        for device_idx, label in usable_devices():
            if len(backends) < num_jobs and device_idx != self._device.id:
                # One whose memory another process holds is left out; `device` names those that run.
                with suppress(BackendError):
                    backends.append(CudaBackend(device=label, device_idx=device_idx))
        return backends

    def needs_compilation(self, *, writes: bool = False) -> bool:
        """Whether any kernel has no compiled code yet; see `core.backend`."""
        on_host = writes and needs_compilation(host_write.KERNELS)
        return on_host or (not SIMULATED and needs_compilation(_KERNELS))

    def compile_kernels(self, *, writes: bool = False) -> None:
        """Run every kernel once, the one that hashes chunks too; see `core.backend`."""
        super().compile_kernels(writes=writes)
        with self._on_device():
            words = self._to_kernels(np.zeros(numbers.BLOCK_WORDS, dtype=np.uint64))
            lanes = self._to_kernels(np.zeros(numbers.LANES, dtype=np.uint64))
            digests = self._to_kernels(np.zeros(1, dtype=np.uint64))
            _launch_digest(words, digests, lanes, words.nbytes)

    def keeps_code(self) -> bool:
        """Whether there is a folder for compiled code; see `core.backend`."""
        return all(cache_folder(kernel) is not None for kernel in _KERNELS)

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        with self._calling, self._current_device(), on_stream(self._stream):
            self._arrays.rewind()
            yield

    @contextmanager
    def _current_device(self) -> Iterator[None]:
        with cuda_errors_translated(), self._device:
            yield

    def _to_kernels(self, array: NDArray[Any]) -> KernelArray:
        return self._arrays.upload(array, stream=self._stream)

    def _from_kernels(self, array: KernelArray) -> NDArray[Any]:
        host: NDArray[Any] = array.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        return host

    def _records_to_kernels(self, records: NDArray[np.int64]) -> KernelArray:
        """The records, uploaded once for all blocks of a column: nobody changes read-only ones."""
        if records.flags.writeable:
            return super()._records_to_kernels(records)
        if self._records is None or self._records[0]() is not records:
            self._records = None  # its memory is free before more is taken
            twin = cuda.to_device(memory.hashed_input(records), stream=self._stream)
            self._records = weakref.ref(records), twin
        return self._records[1]

    def fold(
        self, column: KvColumn, rows: NDArray[np.int64], *, read_bytes: int | None = None
    ) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column; see `core.backend`."""
        num_bytes = column.read_bytes if read_bytes is None else read_bytes
        lane = self._free_lanes.get()
        try:
            with self._current_device():
                return self._fold_on(lane, column, rows, num_bytes=num_bytes)
        finally:
            self._free_lanes.put(lane)

    def _fold_on(
        self, lane: FoldLane, column: KvColumn, rows: NDArray[np.int64], *, num_bytes: int
    ) -> NDArray[np.uint64]:
        """Send the windows of the rows, prove and fold all that is in them, and pick the rows."""
        staging, row_bytes = self._staging_for(column), column.row_bytes
        lane.begin(column.num_rows)
        slots = lane.slots(min(column.num_rows, staging.buffer_bytes // max(1, row_bytes)))

        def send(load: Load) -> None:
            shipment, buffer = load.shipment, load.buffer
            buffer.upload(shipment.content.size, stream=lane.stream)
            source_bytes = buffer.rows(shipment.first_byte, shipment.num_rows, row_bytes)
            hashes = lane.hashes(load.first_row, load.first_row + shipment.num_rows)
            with on_stream(lane.stream):
                if load.digests is not None:
                    _launch_digest(
                        buffer.words, load.digests, buffer.block_sums, shipment.chunk_bytes
                    )
                self._kernels.launch_fold(
                    source_bytes, slots[: shipment.num_rows], hashes, 1, row_bytes, num_bytes
                )
            buffer.record_use(lane.stream)

        upload = ColumnUpload(
            shipments(column, rows, max_bytes=staging.buffer_bytes),
            lane=lane,
            staging=staging,
            send=send,
            on_device=self._current_device,
        )
        try:
            feed(upload.pieces(), upload.fill)
        finally:
            upload.close()
        hashes, digests = lane.returned(upload.num_rows)
        compare_digests(upload.sent, digests)
        return picked_hashes(upload.sent, hashes, rows)

    def _staging_for(self, column: KvColumn) -> Staging:
        """The buffers of this backend, or, for rows wider than these take, some of their own."""
        largest = largest_shipment(column)
        if largest <= self._staging.buffer_bytes:
            return self._staging
        return Staging(buffer_bytes=largest, num_buffers=_NUM_WIDE_BUFFERS)
