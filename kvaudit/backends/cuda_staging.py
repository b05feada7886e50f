"""Bytes on their way to a device: threads fill pinned buffers, the device works beside them.

threads   fill A | fill B              | fill C              | wait for A, fill A | ..
device           | upload A, work on A | upload B, work on B | upload C, ..       | ..

The buffers are all the memory that a pool of any size needs there for its KV bytes.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import WORD_BYTES
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import Stream, cuda
from kvaudit.kernels.digest import numbers

# Large enough that a launch, which holds the interpreter for a while, is rare; small enough that a
# column of some ten MiB is under way before all of it is read.
BUFFER_BYTES: Final = 32 << 20
# One is filled and one is worked on, for each of two columns.
NUM_BUFFERS: Final = 4


class Buffer:
    """Pinned memory, its twin on the device with what hashing it needs, and when both are free.

    Args:
        num_bytes: size of each; a multiple of 8.

    Fields:
        host: the pinned memory, shape [num_bytes], uint8.
        words: the twin as words, shape [num_bytes / 8], uint64.
        block_sums: scratch of `digest`, shape [num_bytes / 128], uint64.
    """

    def __init__(self, num_bytes: int) -> None:
        self.host: NDArray[np.uint8] = cuda.pinned_array(num_bytes, dtype=np.uint8)
        self.words: KernelArray = cuda.device_array(num_bytes // WORD_BYTES, dtype=np.uint64)
        self.block_sums: KernelArray = cuda.device_array(
            num_bytes // (numbers.BLOCK_WORDS * WORD_BYTES) * numbers.LANES, dtype=np.uint64
        )
        self._twin = self.words.view(np.uint8)
        self._last_use = cuda.event()

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory."""
        return int(self.words.nbytes + self.block_sums.nbytes)

    def upload(self, num_bytes: int, *, stream: Stream) -> None:
        """Enqueue the copy of the first bytes."""
        self._twin[:num_bytes].copy_to_device(self.host[:num_bytes], stream=stream)

    def rows(self, first_byte: int, num_rows: int, row_bytes: int) -> KernelArray:
        """Rows on the device that begin at a byte, shape [num_rows, row_bytes], uint8."""
        rows = self._twin[first_byte : first_byte + num_rows * row_bytes]
        return rows.reshape((num_rows, row_bytes))

    def record_use(self, stream: Stream) -> None:
        """What is enqueued by now is the last use."""
        self._last_use.record(stream)

    def wait(self) -> None:
        """Wait for the last use."""
        self._last_use.synchronize()


class Staging:
    """Buffers that the folds of one device share.

    Args:
        buffer_bytes: size of a buffer.
        num_buffers: how many there are.
    """

    def __init__(self, *, buffer_bytes: int = BUFFER_BYTES, num_buffers: int = NUM_BUFFERS) -> None:
        self.buffer_bytes = buffer_bytes
        self._free = deque(Buffer(buffer_bytes) for _ in range(num_buffers))
        self.device_bytes = sum(buffer.device_bytes for buffer in self._free)
        self._changed = threading.Condition()

    def take(self, stopped: threading.Event) -> Buffer | None:
        """The buffer that has been free for longest; None once stopped and `wake` was called.

        Args:
            stopped: set when whoever takes it will not fill it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._free or stopped.is_set())
            if stopped.is_set():
                return None
            buffer = self._free.popleft()
        buffer.wait()
        return buffer

    def give_back(self, buffer: Buffer) -> None:
        """The buffer is free as soon as the device has passed its last use."""
        with self._changed:
            self._free.append(buffer)
            self._changed.notify()

    def wake(self) -> None:
        """Look at `stopped` again, wherever a buffer is waited for."""
        with self._changed:
            self._changed.notify_all()
