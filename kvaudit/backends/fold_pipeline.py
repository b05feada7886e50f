"""Columns on their way through a device: all threads fill buffers, one thread does all the rest.

others    fill A B C D E | fill F           | fill A           | ..
this one  wait for A     | send A, begin F  | send B, begin A  | .. | return the first column
device                   | work on A        | work on B        | ..

Python runs one thread at a time, and one that waits for the others to let go of it loses more time
than a copy takes. So the others make one call for each some MiB, and none of them ever launches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.cuda_staging import Buffer, Staging, Work
from kvaudit.backends.shipments import Shipment, compare_digests, picked_hashes, shipments
from kvaudit.core.backend import FoldJob
from kvaudit.kernels.row_threads import begin

# Copied in one call.
PIECE_BYTES: Final = 8 << 20
# Rows of a shipment of several windows: the hashes of narrow ones take more memory than their bytes.
MAX_ROWS: Final = 1 << 20
# The device is at work on so many buffers before the results of the first are waited for.
_BUFFERS_AT_WORK: Final = 2


@dataclass(slots=True, kw_only=True, eq=False)
class Column:
    """A job under way.

    Fields:
        job: what is folded.
        num_loads: its shipments that were begun and have not returned.
        is_begun: whether all of them were begun.
        parts: the hashes of the wanted rows of those that have returned, in order.
    """

    job: FoldJob
    num_loads: int = 0
    is_begun: bool = False
    parts: list[NDArray[np.uint64]] = field(default_factory=list)

    def hashes(self) -> NDArray[np.uint64]:
        """The hashes of all wanted rows, once all shipments have returned; shape [n], uint64."""
        if len(self.parts) == 1:
            return self.parts[0]
        return np.concatenate([np.empty(0, dtype=np.uint64), *self.parts])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """A shipment in its buffer.

    Fields:
        column: what it is a part of.
        shipment: what is sent.
        buffer: where it is collected.
        work: what is done with it there.
        copies: what fills the buffer, in order.
    """

    column: Column
    shipment: Shipment
    buffer: Buffer
    work: Work
    copies: list[Future[None]]


class FoldPipeline:
    """Folds of one device in their order, each under way before the last has returned.

    Args:
        jobs: what to fold.
        staging: the memory; nobody else uses it meanwhile.
        kernels: launches the kernels of a buffer's work on the current stream.
        on_device: gives a context in which the staging's device is the current one.
    """

    def __init__(
        self,
        jobs: Iterable[FoldJob],
        *,
        staging: Staging,
        kernels: Callable[[Buffer, Work], None],
        on_device: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._jobs = jobs
        self._staging = staging
        self._kernels = kernels
        self._on_device = on_device
        self._most_at_work = min(_BUFFERS_AT_WORK, staging.num_buffers - 1)
        self._filling: deque[Load] = deque()
        self._at_work: deque[Load] = deque()
        self._columns: deque[Column] = deque()

    def hashes(self) -> Iterator[NDArray[np.uint64]]:
        """The source hashes of the rows of each job.

        Raises:
            FileCorrupt: a chunk's digest differs, first that of the first such job.
        """
        try:
            for job in self._jobs:
                yield from self._begin_column(job)
            while self._filling:
                self._send_oldest()
                yield from self._returned(self._most_at_work)
            yield from self._returned(0)
        finally:
            copies = [copy for load in self._filling for copy in load.copies]
            wait([copy for copy in copies if not copy.cancel()])
            with self._on_device():
                self._staging.reset()

    def _begin_column(self, job: FoldJob) -> Iterator[NDArray[np.uint64]]:
        """Fill a column's buffers; meanwhile the hashes of those before it return."""
        column = Column(job=job)
        self._columns.append(column)
        for shipment in self._shipments(job):
            if not self._staging.has_room(shipment.num_rows):
                self._drain()
                with self._on_device():
                    self._staging.make_room(shipment.num_rows)
            if len(self._filling) == self._staging.num_buffers - self._most_at_work:
                self._send_oldest()
            yield from self._returned(self._most_at_work)
            self._filling.append(self._begun(column, shipment))
        column.is_begun = True

    def _shipments(self, job: FoldJob) -> Iterator[Shipment]:
        """What is to be sent; what is wrong with what was sent before comes first."""
        max_bytes = min(self._staging.buffer_bytes, MAX_ROWS * job.column.row_bytes)
        try:
            yield from shipments(job.column, job.rows, max_bytes=max_bytes)
        except Exception:
            self._drain()
            raise

    def _begun(self, column: Column, shipment: Shipment) -> Load:
        """A shipment whose bytes are being copied."""
        content, job, buffer = shipment.content, column.job, self._staging.free.popleft()
        copies = [begin(shipment.prove_on_host)] if shipment.has_host_proof else []
        for first in range(0, content.size, PIECE_BYTES):
            piece = content[first : first + PIECE_BYTES]
            target = buffer.host[first : first + len(piece)]
            copies.append(begin(partial(np.copyto, target, piece)))
        column.num_loads += 1
        work = Work(
            num_bytes=content.size,
            first_byte=shipment.first_byte,
            num_rows=shipment.num_rows,
            row_bytes=job.column.row_bytes,
            read_bytes=job.column.read_bytes if job.read_bytes is None else job.read_bytes,
            num_chunks=len(shipment.device_chunks),
            chunk_bytes=shipment.chunk_bytes,
        )
        return Load(column=column, shipment=shipment, buffer=buffer, work=work, copies=copies)

    def _send_oldest(self) -> None:
        """Enqueue what is to be done with the buffer that was begun first, once it is full."""
        load = self._filling[0]
        try:
            for copy in load.copies:
                copy.result()
        except Exception:
            # What is wrong with what was sent before comes first.
            self._fetch_down_to(0)
            raise
        self._filling.popleft()
        with self._on_device():
            load.buffer.begin(load.work, self._kernels)
        self._at_work.append(load)

    def _fetch_down_to(self, num_at_work: int) -> None:
        """Wait for the results of the buffers sent first, until so many are left."""
        while len(self._at_work) > num_at_work:
            load = self._at_work.popleft()
            with self._on_device():
                hashes, digests = load.buffer.results(load.work)
            compare_digests(load.shipment, digests)
            load.column.parts.append(picked_hashes(load.shipment, hashes, load.column.job.rows))
            load.column.num_loads -= 1
            self._staging.free.append(load.buffer)

    def _drain(self) -> None:
        """Wait until no buffer is in use."""
        while self._filling:
            self._fetch_down_to(self._most_at_work - 1)
            self._send_oldest()
        self._fetch_down_to(0)

    def _returned(self, num_at_work: int) -> Iterator[NDArray[np.uint64]]:
        """The hashes of the first columns, all of which is proven once so many buffers are left."""
        self._fetch_down_to(num_at_work)
        while self._columns and self._columns[0].is_begun and not self._columns[0].num_loads:
            yield self._columns.popleft().hashes()
