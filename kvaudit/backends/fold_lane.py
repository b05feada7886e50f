"""What one fold has of a device for itself: a stream, and memory for what is to return."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.device_arrays import DeviceViews
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import cuda

_DIGESTS_PER_PAGE: Final = 1 << 12


class FoldLane:
    """Memory of one column's results, kept from column to column.

    Fields:
        stream: where all work on a column is enqueued.
    """

    def __init__(self) -> None:
        self.stream = cuda.stream()
        self._hashes = DeviceViews(0, np.uint64)
        self._digest_pages: list[DeviceViews] = []
        self._num_digests: list[int] = []

    @property
    def num_bytes(self) -> int:
        """Bytes of device memory that it keeps."""
        return sum(memory.num_bytes for memory in (self._hashes, *self._digest_pages))

    def begin(self, num_rows: int) -> None:
        """A column begins: what the last one left is lost.

        Args:
            num_rows: rows that will be hashed at most.
        """
        self._num_digests = []
        if len(self._hashes) < num_rows:
            self._hashes = DeviceViews(num_rows, np.uint64)

    def hashes(self, first: int, last: int) -> KernelArray:
        """Where the hashes of rows [first, last) of those that are sent go, uint64."""
        return self._hashes.between(first, last)

    def digests(self, num_chunks: int) -> KernelArray:
        """Where the digests of the next chunks go, shape [num_chunks], uint64."""
        if not self._num_digests or self._num_digests[-1] + num_chunks > _DIGESTS_PER_PAGE:
            self._num_digests.append(0)
            if len(self._num_digests) > len(self._digest_pages):
                self._digest_pages.append(DeviceViews(_DIGESTS_PER_PAGE, np.uint64))
        first = self._num_digests[-1]
        self._num_digests[-1] += num_chunks
        page = self._digest_pages[len(self._num_digests) - 1]
        return page.between(first, first + num_chunks)

    def returned(self, num_rows: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """All hashes and all digests in host memory, once what is enqueued is done.

        Args:
            num_rows: rows that were sent.
        """
        hashes: NDArray[np.uint64] = self.hashes(0, num_rows).copy_to_host(stream=self.stream)
        pages = [
            page.between(0, num_digests).copy_to_host(stream=self.stream)
            for page, num_digests in zip(self._digest_pages, self._num_digests, strict=False)
        ]
        self.stream.synchronize()
        return hashes, np.concatenate([np.empty(0, dtype=np.uint64), *pages])
