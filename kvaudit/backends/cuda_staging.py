"""Memory through which columns go to a device: pinned buffers with twins there, and lanes.

The buffers are all the memory that a pool of any size needs there for its KV bytes; a lane has 8
bytes a row of a column.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.device_arrays import DeviceViews
from kvaudit.backends.fold_lane import FoldLane
from kvaudit.constants import WORD_BYTES
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import Stream, cuda
from kvaudit.kernels.digest import numbers

# Large enough that launches are rare, which hold the interpreter while other threads wait for it.
BUFFER_BYTES: Final = 64 << 20
# Five are filled, by all cores at once, while the device works on one.
NUM_BUFFERS: Final = 6


class Buffer:
    """Pinned memory, its twin on the device with what hashing it needs, and when both are free.

    Args:
        num_bytes: size of each; a multiple of 1024.

    Fields:
        host: the pinned memory, shape [num_bytes], uint8.
        words: the twin as words, shape [num_bytes / 8], uint64.
        block_sums: scratch of `digest`, shape [num_bytes / 128], uint64.
    """

    def __init__(self, num_bytes: int) -> None:
        self.host: NDArray[np.uint8] = cuda.pinned_array(num_bytes, dtype=np.uint8)
        self._twin = DeviceViews(num_bytes, np.uint8)
        self.words: KernelArray = self._twin.memory.view(np.uint64)
        self.block_sums: KernelArray = cuda.device_array(
            num_bytes // (numbers.BLOCK_WORDS * WORD_BYTES) * numbers.LANES, dtype=np.uint64
        )
        self._rows: tuple[tuple[int, int, int], KernelArray] | None = None
        self._last_use = cuda.event()

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory."""
        return self._twin.num_bytes + int(self.block_sums.nbytes)

    def upload(self, num_bytes: int, *, stream: Stream) -> None:
        """Enqueue the copy of the first bytes."""
        self._twin.between(0, num_bytes).copy_to_device(self.host[:num_bytes], stream=stream)

    def rows(self, first_byte: int, num_rows: int, row_bytes: int) -> KernelArray:
        """Rows on the device that begin at a byte, shape [num_rows, row_bytes], uint8."""
        place = (first_byte, num_rows, row_bytes)
        if self._rows is None or self._rows[0] != place:
            content = self._twin.between(first_byte, first_byte + num_rows * row_bytes)
            self._rows = place, content.reshape((num_rows, row_bytes))
        return self._rows[1]

    def record_use(self, stream: Stream) -> None:
        """What is enqueued by now is the last use."""
        self._last_use.record(stream)

    def wait(self) -> None:
        """Wait for the last use."""
        self._last_use.synchronize()


class Staging:
    """Buffers and lanes that one walk over columns uses at a time.

    Args:
        buffer_bytes: size of a buffer.
        num_buffers: how many there are, at least 2.

    Fields:
        buffers: the free ones; the device may still be at work on those at the end.
        num_buffers: how many there are, free or not.
    """

    def __init__(self, *, buffer_bytes: int = BUFFER_BYTES, num_buffers: int = NUM_BUFFERS) -> None:
        self.buffer_bytes = buffer_bytes
        self.num_buffers = num_buffers
        self._buffers = [Buffer(buffer_bytes) for _ in range(num_buffers)]
        self._lanes: list[FoldLane] = []
        self._free_lanes: list[FoldLane] = []
        self.buffers = deque(self._buffers)
        self._slots = DeviceViews(0, np.int64)

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that it keeps."""
        lanes = sum(lane.num_bytes for lane in self._lanes)
        buffers = sum(buffer.device_bytes for buffer in self._buffers)
        return buffers + lanes + self._slots.num_bytes

    def reset(self) -> None:
        """A walk has ended, or was given up: all that it used is free."""
        self.buffers = deque(self._buffers)
        self._free_lanes = list(self._lanes)

    def take_lane(self) -> FoldLane:
        """A lane that no column uses."""
        if not self._free_lanes:
            self._free_lanes.append(FoldLane())
            self._lanes += self._free_lanes
        return self._free_lanes.pop()

    def give_back_lane(self, lane: FoldLane) -> None:
        """The column's results have been returned."""
        self._free_lanes.append(lane)

    def slots(self, num_rows: int) -> KernelArray:
        """The numbers 0, 1, .., shape [num_rows], int64, at most as many as rows fit in a buffer."""
        if len(self._slots) < num_rows:
            self._slots = DeviceViews(num_rows, np.int64)
            self._slots.memory.copy_to_device(np.arange(num_rows, dtype=np.int64))
        return self._slots.between(0, num_rows)
