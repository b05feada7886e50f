"""Rows on their way to a device: threads fill pinned chunks, the device folds beside them.

threads   fill A | fill B           | fill C           | wait for A, fill A | ..
device           | upload A, fold A | upload B, fold B | upload C, fold C   | ..

Only wanted rows travel, and of each only the bytes that are folded, as whole words: on the device
they lie one after another, whatever the file's rows are. The chunks are all the memory that a pool
of any size needs there for its KV bytes.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.device_arrays import DeviceArrays
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import Stream, cuda

# Large enough that a launch, which holds the interpreter for a while, is rare; small enough that a
# column of some ten MiB is under way before all of it is read.
CHUNK_BYTES: Final = 32 << 20
# A fold holds at most two that still need another window; one more keeps two folds going.
NUM_CHUNKS: Final = 4


class Chunk:
    """Pinned memory, its twin on the device, and when both are free again.

    Args:
        num_bytes: size of each.
    """

    def __init__(self, num_bytes: int) -> None:
        self._host = cuda.pinned_array(num_bytes, dtype=np.uint8)
        self._device = cuda.device_array(num_bytes, dtype=np.uint8)
        self._last_use = cuda.event()

    def rows(self, num_rows: int, row_bytes: int) -> NDArray[np.uint8]:
        """The pinned memory of the first rows, shape [num_rows, row_bytes], uint8."""
        rows: NDArray[np.uint8] = self._host[: num_rows * row_bytes].reshape(num_rows, row_bytes)
        return rows

    def upload(self, num_rows: int, row_bytes: int, *, stream: Stream) -> KernelArray:
        """Enqueue the copy of the first rows; their twins, shape [num_rows, row_bytes], uint8."""
        num_bytes = num_rows * row_bytes
        twin = self._device[:num_bytes]
        twin.copy_to_device(self._host[:num_bytes], stream=stream)
        return twin.reshape((num_rows, row_bytes))

    def record_use(self, stream: Stream) -> None:
        """What is enqueued by now is the last use."""
        self._last_use.record(stream)

    def wait(self) -> None:
        """Wait for the last use."""
        self._last_use.synchronize()


class Staging:
    """Chunks that the folds of one device share.

    Args:
        chunk_bytes: size of a chunk.
        num_chunks: how many there are.
    """

    def __init__(self, *, chunk_bytes: int = CHUNK_BYTES, num_chunks: int = NUM_CHUNKS) -> None:
        self.chunk_bytes = chunk_bytes
        self.device_bytes = chunk_bytes * num_chunks
        self._free = deque(Chunk(chunk_bytes) for _ in range(num_chunks))
        self._changed = threading.Condition()

    def take(self, stopped: threading.Event) -> Chunk | None:
        """The chunk that has been free for longest; None once stopped and `wake` was called.

        Args:
            stopped: set when whoever takes it will not fill it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._free or stopped.is_set())
            if stopped.is_set():
                return None
            chunk = self._free.popleft()
        chunk.wait()
        return chunk

    def give_back(self, chunk: Chunk) -> None:
        """The chunk is free as soon as the device has passed its last use."""
        with self._changed:
            self._free.append(chunk)
            self._changed.notify()

    def wake(self) -> None:
        """Look at `stopped` again, wherever a chunk is waited for."""
        with self._changed:
            self._changed.notify_all()


class FoldLane:
    """What one fold has of a device for itself: a stream, and memory for a column's hashes."""

    def __init__(self) -> None:
        self.stream = cuda.stream()
        self._arrays = DeviceArrays()
        self._slots = cuda.device_array(0, dtype=np.int64)

    @property
    def num_bytes(self) -> int:
        """Bytes of device memory that it keeps."""
        return self._arrays.num_bytes + int(self._slots.nbytes)

    def hashes(self, num_rows: int) -> KernelArray:
        """Where the hashes of a column go, shape [num_rows], uint64; the last column's are lost."""
        self._arrays.rewind()
        return self._arrays.empty((num_rows,), np.dtype(np.uint64))

    def slots(self, num_rows: int) -> KernelArray:
        """The numbers of a chunk's rows, in order: shape [at least num_rows], int64."""
        if len(self._slots) < num_rows:
            self._slots = cuda.to_device(np.arange(num_rows, dtype=np.int64), stream=self.stream)
        return self._slots

    def returned(self, hashes: KernelArray) -> NDArray[np.uint64]:
        """The hashes in host memory, once all that is enqueued is done; shape [num_rows], uint64."""
        host: NDArray[np.uint64] = hashes.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return host
