"""The backend that is always there: numba kernels on every core this process may use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.kernel_backend import KernelBackend
from kvaudit.backends.kernel_set import kernel_set
from kvaudit.backends.window_walk import WindowTask, wanted_windows
from kvaudit.core.kv_column import KvColumn
from kvaudit.kernels.array_forms import frozen, read_only
from kvaudit.kernels.compilation import cache_folder, needs_compilation
from kvaudit.kernels.fold import numba_cpu as fold_kernels
from kvaudit.kernels.hash import numba_cpu as hash_kernels
from kvaudit.kernels.row_threads import drain, num_threads
from kvaudit.kernels.verify import numba_cpu as verify_kernels
from kvaudit.kernels.write import numba_cpu as write_kernels

# Those of an audit, which writes no records.
KERNELS = (*fold_kernels.AUDIT_KERNELS, *hash_kernels.KERNELS, *verify_kernels.AUDIT_KERNELS)


class CpuBackend(KernelBackend):
    """Folds windows on all cores; each part is hashed and folded while a core's cache holds it."""

    name = "cpu"

    def __init__(self) -> None:
        super().__init__(kernel_set("numba_cpu"))
        self.device = f"CPU, {num_threads()} threads"
        self.max_callers = num_threads()

    def needs_compilation(self, *, writes: bool = False) -> bool:
        """Whether any kernel has no compiled code yet; see `core.backend`."""
        return needs_compilation((*KERNELS, *write_kernels.KERNELS) if writes else KERNELS)

    def keeps_code(self) -> bool:
        """Whether there is a folder for compiled code; see `core.backend`."""
        return all(cache_folder(kernel) is not None for kernel in KERNELS)

    def fold(
        self, column: KvColumn, rows: NDArray[np.int64], *, read_bytes: int | None = None
    ) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column; see `core.backend`."""
        hashes = np.zeros(rows.shape, dtype=np.uint64)
        num_bytes = column.read_bytes if read_bytes is None else read_bytes

        def fold_window(task: WindowTask) -> None:
            self._fold_window(column, task, rows=rows, hashes=hashes, num_bytes=num_bytes)

        drain(wanted_windows(column, rows), fold_window)
        return hashes

    def _fold_window(
        self,
        column: KvColumn,
        task: WindowTask,
        *,
        rows: NDArray[np.int64],
        hashes: NDArray[np.uint64],
        num_bytes: int,
    ) -> None:
        data = frozen(task.window.data)
        wanted = read_only(task.window_rows(rows))
        window_hashes = hashes[task.first : task.last]
        for part in task.window.parts(next_is_walked=task.next_is_wanted):
            first, last = np.searchsorted(wanted, (part.start, part.stop)).tolist()
            if first < last:
                self._kernels.launch_fold(
                    data,
                    wanted[first:last],
                    window_hashes[first:last],
                    1,
                    column.row_bytes,
                    num_bytes,
                )
