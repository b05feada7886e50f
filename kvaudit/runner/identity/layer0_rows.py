"""The numbers in layer-0 columns of one half, and how far rows of them are from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.backend import Backend
from kvaudit.core.element_types import decoded, element_type
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.observer import RunObserver
from kvaudit.kernels.row_threads import run_rows
from kvaudit.runner.self_check import check_distance

# Expected rows of some entries, shape [n, num_elements], float32.
ExpectedRows = Callable[[slice], NDArray[np.float32]]
LaunchDistance = Callable[[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]], None]

# Both rows of that many elements stay in a core's cache while they are compared.
_ELEMENTS_PER_TASK: Final = 1 << 17


def distance_launcher(backend: Backend, observer: RunObserver) -> LaunchDistance:
    """The kernel that measures, compiled and checked: the reference's on that backend, else the CPU's.

    Raises:
        SelfCheckFailed: it measured known rows wrongly.
    """
    if backend.name == "reference":
        from kvaudit.kernels.distance.reference import launch_distance
    else:
        from kvaudit.kernels.compilation import cache_folder, needs_compilation
        from kvaudit.kernels.distance.numba_cpu import KERNELS, launch_distance

        if needs_compilation(KERNELS):
            observer.compiling(is_kept=all(cache_folder(kernel) is not None for kernel in KERNELS))
    check_distance(launch_distance)
    return launch_distance


def why_no_numbers(column: KvColumn) -> str:
    """Why a column's bytes are no numbers to compare; "" where they are."""
    if not column.dtype:
        return f"the type of {column.name} is not given"
    kind = element_type(column.dtype)
    if kind is None or column.row_bytes % kind.itemsize or not column.row_bytes:
        return f"{column.name} is {column.dtype}"
    return ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer0Rows:
    """The rows of a column as numbers, or those of several pools' columns one after another.

    Fields:
        columns: the columns; all have one row size and one dtype, which `element_type` knows.
        launch_distance: the kernel.
        elements: the elements of a row that count, shape [k], int64; None = all.
    """

    columns: Sequence[KvColumn]
    launch_distance: LaunchDistance
    elements: NDArray[np.int64] | None = None

    @property
    def dtype(self) -> str:
        """Their element type, as the dumper named it."""
        return self.columns[0].dtype

    @property
    def num_elements(self) -> int:
        """Elements of a row that count."""
        if self.elements is not None:
            return len(self.elements)
        kind = element_type(self.dtype)
        return 0 if kind is None else self.columns[0].row_bytes // kind.itemsize

    @cached_property
    def _data(self) -> list[NDArray[np.uint8]]:
        """All rows of each column, shape [num_rows, row_bytes], each chunk of the files proved."""
        for column in self.columns:
            for window in column.windows():
                window.check()
        return [column.read_rows(0, column.num_rows) for column in self.columns]

    def stored(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of some rows, shape [n], int64: shape [n, row_bytes], uint8.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        if len(self._data) == 1:
            return self._data[0][rows]
        found = np.empty((len(rows), self.columns[0].row_bytes), dtype=np.uint8)
        first = 0
        for data in self._data:
            members = np.flatnonzero((rows >= first) & (rows < first + len(data)))
            found[members] = data[rows[members] - first]
            first += len(data)
        return found

    def numbers(self, rows: NDArray[np.int64], *, dtype: str = "") -> NDArray[np.float32]:
        """Some rows, shape [n], int64, as numbers; in another element type where one is named.

        Returns:
            shape [n, num_elements], float32.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        numbers = decoded(self.stored(rows), dtype or self.dtype)
        return numbers if self.elements is None else numbers[:, self.elements]

    def distances(self, rows: NDArray[np.int64], expected: ExpectedRows) -> NDArray[np.float64]:
        """How far some rows, shape [n], int64, are from those expected, shape [n], float64.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        found = np.empty(len(rows), dtype=np.float64)

        def measure(first: int, last: int) -> None:
            part = slice(first, last)
            self.launch_distance(self.numbers(rows[part]), expected(part), found[part])

        self._in_parts(measure, len(rows))
        return found

    def readable(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some rows, shape [n], int64, are neither zeros nor hold a NaN; shape [n], bool."""
        lengths = self.lengths(rows)
        return np.isfinite(lengths) & (lengths > 0)

    def lengths(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The length of some rows, shape [n], float64: 0 of zeros, not finite of a NaN."""
        found = np.empty(len(rows), dtype=np.float64)

        def measure(first: int, last: int) -> None:
            numbers = self.numbers(rows[first:last])
            with np.errstate(over="ignore", invalid="ignore"):
                found[first:last] = np.einsum("ij,ij->i", numbers, numbers, dtype=np.float64)

        self._in_parts(measure, len(rows))
        return np.sqrt(found)

    def _in_parts(self, measure: Callable[[int, int], None], num_rows: int) -> None:
        # What proves the file runs once, before any thread asks for a row.
        _ = self._data
        run_rows(
            measure, num_rows, rows_per_task=max(1, _ELEMENTS_PER_TASK // max(1, self.num_elements))
        )
