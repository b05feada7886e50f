"""The backend that is read as the specification: plain Python, thousands of times slower."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.kernel_backend import KernelBackend
from kvaudit.backends.kernel_set import kernel_set
from kvaudit.backends.window_walk import wanted_windows
from kvaudit.core.kv_column import KvColumn
from kvaudit.kernels.array_forms import frozen, read_only


class ReferenceBackend(KernelBackend):
    """Runs the reference kernels on one thread; needs numpy alone."""

    name = "reference"
    device = "Python"

    def __init__(self) -> None:
        super().__init__(kernel_set("reference"))

    def fold(
        self, column: KvColumn, rows: NDArray[np.int64], *, read_bytes: int | None = None
    ) -> NDArray[np.uint64]:
        """Source hash of each of the rows of a column; see `core.backend`."""
        hashes = np.zeros(rows.shape, dtype=np.uint64)
        num_bytes = column.read_bytes if read_bytes is None else read_bytes
        for task in wanted_windows(column, rows):
            task.window.check()
            self._kernels.launch_fold(
                frozen(task.window.data),
                read_only(task.window_rows(rows)),
                hashes[task.first : task.last],
                1,
                column.row_bytes,
                num_bytes,
            )
        return hashes
