"""What is kept on a device from call to call: to allocate there, or to free, makes it wait."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import Stream, cuda

_MOST_VIEWS: Final = 256


class DeviceViews:
    """Memory and views of it by their bounds: numba-cuda takes as long for a view as for a launch.

    Args:
        length: elements, of any content.
        dtype: their type.

    Fields:
        memory: all of it, shape [length].
    """

    def __init__(self, length: int, dtype: type[np.generic]) -> None:
        self.memory: KernelArray = cuda.device_array(length, dtype=dtype)
        self._views: dict[tuple[int, int], KernelArray] = {}

    def __len__(self) -> int:
        return len(self.memory)

    @property
    def num_bytes(self) -> int:
        """Bytes of device memory."""
        return int(self.memory.nbytes)

    def between(self, first: int, last: int) -> KernelArray:
        """Elements [first, last)."""
        view = self._views.get((first, last))
        if view is None:
            if len(self._views) == _MOST_VIEWS:
                self._views.clear()
            view = self._views[first, last] = self.memory[first:last]
        return view


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
