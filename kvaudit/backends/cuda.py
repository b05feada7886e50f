"""The backend of a CUDA device: windows are checked on the host and folded over there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.cuda_staging import Staging
from kvaudit.backends.kernel_backend import KernelBackend
from kvaudit.backends.kernel_set import kernel_set
from kvaudit.backends.window_walk import wanted_windows
from kvaudit.core.kv_column import WINDOW_BYTES, KvColumn
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.compilation import cache_folder, needs_compilation
from kvaudit.kernels.cuda_module import SIMULATED, cuda, on_stream
from kvaudit.kernels.fold import numba_cuda as fold_kernels
from kvaudit.kernels.hash import numba_cuda as hash_kernels
from kvaudit.kernels.verify import numba_cuda as verify_kernels
from kvaudit.kernels.write import numba_cpu as host_write

_KERNELS = (*fold_kernels.KERNELS, *hash_kernels.KERNELS, *verify_kernels.KERNELS)


class CudaBackend(KernelBackend):
    """Runs on numba-cuda's current device. `availability.choose` makes sure that there is one.

    Args:
        device: the device's name, for people.
    """

    name = "cuda"

    def __init__(self, *, device: str) -> None:
        super().__init__(replace(kernel_set("numba_cuda"), launch_write=host_write.launch_write))
        self.device = device
        self._staging: Staging | None = None

    def _to_kernels(self, array: NDArray[Any]) -> KernelArray:
        return cuda.to_device(array)

    def _from_kernels(self, array: KernelArray) -> NDArray[Any]:
        host: NDArray[Any] = array.copy_to_host()
        return host

    def _errors_translated(self) -> AbstractContextManager[None]:
        return cuda_errors_translated()

    def needs_compilation(self, *, writes: bool = False) -> bool:
        """Whether any kernel has no compiled code yet; see `core.backend`."""
        on_host = writes and needs_compilation(host_write.KERNELS)
        return on_host or (not SIMULATED and needs_compilation(_KERNELS))

    def keeps_code(self) -> bool:
        """Whether there is a folder for compiled code; see `core.backend`."""
        return all(cache_folder(kernel) is not None for kernel in _KERNELS)

    def fold(
        self, column: KvColumn, rows: NDArray[np.int64], *, read_bytes: int | None = None
    ) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column; see `core.backend`."""
        with self._errors_translated():
            staging = self._staging_for(column)
            num_bytes = column.read_bytes if read_bytes is None else read_bytes
            hashes = self._to_kernels(np.zeros(rows.shape, dtype=np.uint64))
            for task in wanted_windows(column, rows):
                task.window.check()
                source_bytes, slots = staging.upload(task.window.data, task.window_rows(rows))
                with on_stream(staging.stream):
                    self._kernels.launch_fold(
                        source_bytes,
                        slots,
                        hashes[task.first : task.last],
                        1,
                        column.row_bytes,
                        num_bytes,
                    )
                staging.release()
            staging.stream.synchronize()
            return self._from_kernels(hashes)

    def _staging_for(self, column: KvColumn) -> Staging:
        """Staging that holds a window of the column; kept from column to column."""
        # A window may end with the row in which the next 4 MiB begin.
        num_bytes = WINDOW_BYTES + column.row_bytes
        num_rows = num_bytes // max(1, column.row_bytes)
        staging = self._staging
        if staging is None or staging.num_bytes < num_bytes or staging.num_rows < num_rows:
            staging = self._staging = Staging(num_bytes=num_bytes, num_rows=num_rows)
        return staging
