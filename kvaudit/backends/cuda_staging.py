"""Host bytes on their way to a device: pinned, a window at a time, uploaded beside the last fold.

host      fill A | fill B           | wait for A, fill A | ..
device           | upload A, fold A | upload B, fold B   | ..
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import cuda

_NUM_BUFFERS = 2
_INDEX_BYTES = np.dtype(np.int64).itemsize


class _Buffer:
    """Pinned memory for KV bytes and slots, its twins on the device, and when they are free."""

    def __init__(self, *, num_bytes: int, num_rows: int) -> None:
        self._host_data = cuda.pinned_array(num_bytes, dtype=np.uint8)
        self._data = cuda.device_array(num_bytes, dtype=np.uint8)
        self._host_slots = cuda.pinned_array(num_rows, dtype=np.int64)
        self._slots = cuda.device_array(num_rows, dtype=np.int64)
        self.last_use = cuda.event()

    def upload(
        self, data: NDArray[np.uint8], slot_indices: NDArray[np.int64], *, stream: object
    ) -> tuple[KernelArray, KernelArray]:
        """Fill the pinned memory and enqueue its copies."""
        num_bytes, num_rows = data.size, len(slot_indices)
        self._host_data[:num_bytes].reshape(data.shape)[...] = data
        self._host_slots[:num_rows] = slot_indices
        device_data, device_slots = self._data[:num_bytes], self._slots[:num_rows]
        device_data.copy_to_device(self._host_data[:num_bytes], stream=stream)
        device_slots.copy_to_device(self._host_slots[:num_rows], stream=stream)
        return device_data.reshape(data.shape), device_slots


class Staging:
    """Two buffers that take turns on one stream.

    Args:
        num_bytes: KV bytes that a buffer holds.
        num_rows: slots that a buffer holds.
    """

    def __init__(self, *, num_bytes: int, num_rows: int) -> None:
        self.num_bytes = num_bytes
        self.num_rows = num_rows
        self.stream = cuda.stream()
        self._buffers = [
            _Buffer(num_bytes=num_bytes, num_rows=num_rows) for _ in range(_NUM_BUFFERS)
        ]
        self._num_uploads = 0

    def upload(
        self, data: NDArray[np.uint8], slot_indices: NDArray[np.int64]
    ) -> tuple[KernelArray, KernelArray]:
        """Enqueue copies of KV bytes and of the slots wanted of them; waits for a free buffer.

        Args:
            data: shape [n, row_bytes], uint8, at most num_bytes.
            slot_indices: shape [m], int64, at most num_rows.
        """
        buffer = self._buffers[self._num_uploads % _NUM_BUFFERS]
        if self._num_uploads >= _NUM_BUFFERS:
            buffer.last_use.synchronize()
        return buffer.upload(data, slot_indices, stream=self.stream)

    def release(self) -> None:
        """What is enqueued by now is the last use of the buffer that `upload` filled."""
        self._buffers[self._num_uploads % _NUM_BUFFERS].last_use.record(self.stream)
        self._num_uploads += 1
