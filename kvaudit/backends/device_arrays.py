"""Arrays on a device that are kept from call to call: to allocate there, or to free, makes it wait."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import Stream, cuda


class DeviceArrays:
    """The n-th array of a call takes the memory of the last call's n-th, where that fits exactly.

    Calls of one job have the same shapes, but for the last. One thread at a time uses it.
    """

    def __init__(self) -> None:
        self._arrays: list[KernelArray] = []
        self._num_used = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of device memory that it keeps."""
        return sum(int(array.nbytes) for array in self._arrays)

    def rewind(self) -> None:
        """A new call begins: what the last one used is free."""
        self._num_used = 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> KernelArray:
        """An array of any content."""
        number = self._num_used
        self._num_used += 1
        if number < len(self._arrays):
            kept = self._arrays[number]
            if tuple(kept.shape) == shape and kept.dtype == dtype:
                return kept
        self._arrays[number : number + 1] = [cuda.device_array(shape, dtype=dtype)]
        return self._arrays[number]

    def upload(self, array: NDArray[Any], *, stream: Stream) -> KernelArray:
        """A copy of a contiguous array, enqueued on a stream."""
        twin = self.empty(array.shape, array.dtype)
        twin.copy_to_device(array, stream=stream)
        return twin
