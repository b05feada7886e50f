"""Memory through which columns go to a device and their hashes come back: pinned, with twins there.

The buffers are all the memory that a pool of any size needs there for its KV bytes, and for what is
made of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.device_arrays import DeviceViews
from kvaudit.backends.recorded_work import Enqueue, recorded, side_stream
from kvaudit.constants import WORD_BYTES
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import Stream, cuda, load_only, on_stream
from kvaudit.kernels.digest import numbers

# Large enough that work for the interpreter is rare, which other threads wait for meanwhile.
BUFFER_BYTES: Final = 32 << 20
# Ten are filled, by all cores at once, while the device works on two.
NUM_BUFFERS: Final = 12
# Chunks have whole KiB each.
_MIN_CHUNK_BYTES: Final = 1 << 10
# Columns of a pool repeat a few works: those of its halves, and of the last rows.
_MOST_RECORDED: Final = 8


class Work(NamedTuple):
    """What is done with the bytes in a buffer.

    Fields:
        num_bytes: bytes to send, from the first on.
        first_byte: where the first row begins.
        num_rows: rows to fold.
        row_bytes: bytes a row.
        read_bytes: leading bytes of a row to fold.
        num_chunks: chunks to hash, from the first byte on.
        chunk_bytes: bytes a chunk.
    """

    num_bytes: int
    first_byte: int
    num_rows: int
    row_bytes: int
    read_bytes: int
    num_chunks: int
    chunk_bytes: int


class Buffer:
    """Pinned memory, its twin on the device, and what one shipment needs there beside them.

    Args:
        num_bytes: size of each; a multiple of 1024.

    Fields:
        host: the pinned memory, shape [num_bytes], uint8.
        words: the twin as words, shape [num_bytes / 8], uint64.
        block_sums: scratch of `digest`, shape [num_bytes / 128], uint64.
        stream: where all work on the buffer is enqueued.
    """

    def __init__(self, num_bytes: int) -> None:
        self.host: NDArray[np.uint8] = cuda.pinned_array(num_bytes, dtype=np.uint8)
        self.stream: Stream = side_stream()
        self._twin = DeviceViews(num_bytes, np.uint8)
        self.words: KernelArray = self._twin.memory.view(np.uint64)
        self.block_sums: KernelArray = cuda.device_array(
            num_bytes // (numbers.BLOCK_WORDS * WORD_BYTES) * numbers.LANES, dtype=np.uint64
        )
        self._recorded: dict[Work, Enqueue] = {}
        self._rows: tuple[Work, KernelArray] | None = None
        self.make_room(0)

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory."""
        return self._twin.num_bytes + int(self.block_sums.nbytes) + self._results.num_bytes

    def make_room(self, num_rows: int) -> None:
        """Have memory for the hashes of so many rows; nothing is under way."""
        num_words = num_rows + len(self.host) // _MIN_CHUNK_BYTES
        self._recorded.clear()
        self._results = DeviceViews(num_words, np.uint64)
        self._returned: NDArray[np.uint64] = cuda.pinned_array(num_words, dtype=np.uint64)

    def rows(self, work: Work) -> KernelArray:
        """The rows on the device, shape [num_rows, row_bytes], uint8."""
        if self._rows is None or self._rows[0] != work:
            first, num_bytes = work.first_byte, work.num_rows * work.row_bytes
            content = self._twin.between(first, first + num_bytes)
            self._rows = work, content.reshape((work.num_rows, work.row_bytes))
        return self._rows[1]

    def hashes(self, work: Work) -> KernelArray:
        """Where the hashes of the rows go, shape [num_rows], uint64."""
        return self._results.between(0, work.num_rows)

    def digests(self, work: Work) -> KernelArray:
        """Where the digests of the chunks go, shape [num_chunks], uint64."""
        return self._results.between(work.num_rows, work.num_rows + work.num_chunks)

    def begin(self, work: Work, kernels: Callable[[Buffer, Work], None]) -> None:
        """Enqueue all of a work: its bytes go there, the kernels run, and the results come back.

        Args:
            work: what is to be done.
            kernels: launches, on the current stream, what makes hashes and digests of the bytes.
        """
        if work not in self._recorded:
            if len(self._recorded) == _MOST_RECORDED:
                self._recorded.clear()
            # What loads a kernel cannot be recorded.
            with load_only(), on_stream(self.stream):
                kernels(self, work)
            self._recorded[work] = recorded(partial(self._enqueue, work, kernels), self.stream)
        self._recorded[work]()

    def _enqueue(self, work: Work, kernels: Callable[[Buffer, Work], None]) -> None:
        content = self._twin.between(0, work.num_bytes)
        content.copy_to_device(self.host[: work.num_bytes], stream=self.stream)
        with on_stream(self.stream):
            kernels(self, work)
        num_words = work.num_rows + work.num_chunks
        results = self._results.between(0, num_words)
        results.copy_to_host(self._returned[:num_words], stream=self.stream)

    def results(self, work: Work) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Hashes and digests, once they are there; they last until the next work begins."""
        self.stream.synchronize()
        num_words = work.num_rows + work.num_chunks
        return self._returned[: work.num_rows], self._returned[work.num_rows : num_words]


class Staging:
    """Buffers that one walk over columns uses at a time.

    Args:
        buffer_bytes: size of a buffer.
        num_buffers: how many there are, at least 2.

    Fields:
        free: the buffers that no work is under way in.
        num_buffers: how many there are, free or not.
    """

    def __init__(self, *, buffer_bytes: int = BUFFER_BYTES, num_buffers: int = NUM_BUFFERS) -> None:
        self.buffer_bytes = buffer_bytes
        self.num_buffers = num_buffers
        self._buffers = [Buffer(buffer_bytes) for _ in range(num_buffers)]
        self.free = deque(self._buffers)
        self._slots = DeviceViews(0, np.int64)

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that it keeps."""
        return sum(buffer.device_bytes for buffer in self._buffers) + self._slots.num_bytes

    def has_room(self, num_rows: int) -> bool:
        """Whether so many rows a buffer have memory for their hashes."""
        return num_rows <= len(self._slots)

    def make_room(self, num_rows: int) -> None:
        """Have memory for the hashes of so many rows a buffer; all buffers are free."""
        for buffer in self._buffers:
            buffer.make_room(num_rows)
        self._slots = DeviceViews(num_rows, np.int64)
        stream = self._buffers[0].stream
        self._slots.memory.copy_to_device(np.arange(num_rows, dtype=np.int64), stream=stream)
        stream.synchronize()

    def reset(self) -> None:
        """A walk has ended, or was given up: all buffers are free once their work is done."""
        for buffer in self._buffers:
            buffer.stream.synchronize()
        self.free = deque(self._buffers)

    def slots(self, num_rows: int) -> KernelArray:
        """The numbers 0, 1, .., shape [num_rows], int64, for as many rows as there is room for."""
        return self._slots.between(0, num_rows)
