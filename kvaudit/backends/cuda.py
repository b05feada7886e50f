"""The backend of a CUDA device: windows are proven on the host and folded over there."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial, wraps
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.backends.cuda_device import usable_devices
from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.cuda_staging import Buffer, Staging, Work
from kvaudit.backends.device_arrays import DeviceArrays
from kvaudit.backends.fold_pipeline import FoldPipeline
from kvaudit.backends.kernel_backend import KernelBackend
from kvaudit.backends.kernel_set import KernelSet, kernel_set
from kvaudit.backends.shipments import largest_shipment
from kvaudit.core.backend import Backend, FoldJob
from kvaudit.core.kv_column import KvColumn
from kvaudit.errors import BackendError
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.compilation import cache_folder, needs_compilation
from kvaudit.kernels.cuda_module import SIMULATED, cuda, free_nothing_at_exit, on_stream
from kvaudit.kernels.digest import numba_cuda as digest_kernels
from kvaudit.kernels.digest import numbers
from kvaudit.kernels.fold import numba_cpu as host_fold
from kvaudit.kernels.row_threads import num_threads
from kvaudit.kernels.write import numba_cpu as host_write

# What `compile_kernels` compiles last: where these are kept, all others are.
_LAST_KERNELS = digest_kernels.KERNELS
# Of a walk beside another one, or of rows too wide for the usual buffers.
_NUM_OWN_BUFFERS = 2
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
            free_nothing_at_exit(self._device.id)
            with self._device:
                self._stream = cuda.stream()
                self._staging = Staging()
        self._idle_staging = [self._staging]

    @property
    def device_bytes(self) -> int:
        """Device memory that it holds, which is the most that it held; see `core.backend`."""
        records = 0 if self._records is None else int(self._records[1].nbytes)
        return self._staging.device_bytes + self._arrays.num_bytes + records

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
        return on_host or (not SIMULATED and needs_compilation(_LAST_KERNELS))

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
        return all(cache_folder(kernel) is not None for kernel in _LAST_KERNELS)

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

    def combine(
        self,
        source_hashes: Sequence[NDArray[np.uint64]],
        *,
        running: NDArray[np.uint64] | None = None,
    ) -> NDArray[np.uint64]:
        """real_kv_hash of each slot, on the host, where the hashes are; see `core.backend`."""
        combined = np.zeros(source_hashes[0].shape, np.uint64) if running is None else running
        for hashes in source_hashes:
            host_fold.launch_combine(memory.hashed_input(hashes), combined)
        return combined

    def fold(
        self, column: KvColumn, rows: NDArray[np.int64], *, read_bytes: int | None = None
    ) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column; see `core.backend`."""
        (hashes,) = self.folds([FoldJob(column, rows, read_bytes)])
        return hashes

    def folds(self, jobs: Iterable[FoldJob]) -> Iterator[NDArray[np.uint64]]:
        """What `fold` gives for each job, while the next ones are under way; see `core.backend`."""
        for buffer_bytes, of_one_size in groupby(jobs, self._buffer_bytes):
            staging = self._taken_staging(buffer_bytes)
            pipeline = FoldPipeline(
                of_one_size,
                staging=staging,
                kernels=partial(self._launch_work, staging),
                on_device=self._current_device,
            )
            try:
                yield from pipeline.hashes()
            finally:
                if staging is self._staging:
                    self._idle_staging.append(staging)

    def _buffer_bytes(self, job: FoldJob) -> int:
        """The buffers of this backend, or, for rows wider than these take, some of their own."""
        return max(self._staging.buffer_bytes, largest_shipment(job.column))

    def _taken_staging(self, buffer_bytes: int) -> Staging:
        """This backend's staging, unless another walk uses it or its buffers are too small."""
        with self._current_device():
            if buffer_bytes == self._staging.buffer_bytes:
                with suppress(IndexError):
                    return self._idle_staging.pop()
            return Staging(buffer_bytes=buffer_bytes, num_buffers=_NUM_OWN_BUFFERS)

    def _launch_work(self, staging: Staging, buffer: Buffer, work: Work) -> None:
        """Launch the kernels of a buffer's work: its chunks are hashed, and all its rows folded."""
        if work.num_chunks:
            digests = buffer.digests(work)
            _launch_digest(buffer.words, digests, buffer.block_sums, work.chunk_bytes)
        slots, hashes = staging.slots(work.num_rows), buffer.hashes(work)
        sizes = (1, work.row_bytes, work.read_bytes)
        self._kernels.launch_fold(buffer.rows(work), slots, hashes, *sizes)
