"""Columns on their way through a device: all threads fill buffers, one thread does all the rest.

others    fill A B C D E | fill F           | fill A           | ..
this one  wait for A     | send A, begin F  | send B, begin A  | .. | return the first column
device                   | upload A, work   | upload B, work   | ..

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

from kvaudit.backends.cuda_staging import Buffer, Staging
from kvaudit.backends.fold_lane import FoldLane
from kvaudit.backends.shipments import Shipment, compare_digests, picked_hashes, shipments
from kvaudit.core.backend import FoldJob
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.row_threads import begin

# Copied in one call.
PIECE_BYTES: Final = 16 << 20
# A column returns when so many buffers were sent after its last: the device is through with it then,
# and nobody waits.
_BUFFERS_BEHIND: Final = 2


@dataclass(slots=True, kw_only=True, eq=False)
class Column:
    """A job under way.

    Fields:
        job: what is folded.
        lane: where its results are.
        sent: its shipments so far.
        num_rows: rows of these.
        sent_before: buffers sent of all columns, its last one included.
    """

    job: FoldJob
    lane: FoldLane
    sent: list[Shipment] = field(default_factory=list)
    num_rows: int = 0
    sent_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """A shipment in its buffer.

    Fields:
        column: what it is a part of.
        shipment: what is sent.
        buffer: where it is collected.
        hashes: where the hashes of its rows go, shape [num_rows], uint64.
        digests: where the digests of its chunks go, shape [num_chunks], uint64; None without any.
        copies: what fills the buffer, in order.
    """

    column: Column
    shipment: Shipment
    buffer: Buffer
    hashes: KernelArray
    digests: KernelArray | None
    copies: list[Future[None]]


class FoldPipeline:
    """Folds of one device in their order, each under way before the last has returned.

    Args:
        jobs: what to fold.
        staging: the memory; nobody else uses it meanwhile.
        work: enqueues hashing and folding of a load that is on its way, on its lane's stream.
        on_device: gives a context in which the staging's device is the current one.
    """

    def __init__(
        self,
        jobs: Iterable[FoldJob],
        *,
        staging: Staging,
        work: Callable[[Load], None],
        on_device: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._jobs = jobs
        self._staging = staging
        self._work = work
        self._on_device = on_device
        self._filling: deque[Load] = deque()
        self._returning: deque[Column] = deque()
        self._num_sent = 0

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
                while self._is_due():
                    yield self._returned()
            while self._returning:
                yield self._returned()
        finally:
            copies = [copy for load in self._filling for copy in load.copies]
            wait([copy for copy in copies if not copy.cancel()])
            self._staging.reset()

    def _begin_column(self, job: FoldJob) -> Iterator[NDArray[np.uint64]]:
        """Fill a column's buffers; meanwhile the hashes of those before it return."""
        with self._on_device():
            column = Column(job=job, lane=self._staging.take_lane())
            column.lane.begin(job.column.num_rows)
        for shipment in self._shipments(job):
            if len(self._filling) == self._staging.num_buffers - 1:
                self._send_oldest()
            while self._is_due():
                yield self._returned()
            self._filling.append(self._begun(column, shipment))
        self._returning.append(column)

    def _shipments(self, job: FoldJob) -> Iterator[Shipment]:
        """What is to be sent; what is wrong with the columns before comes first."""
        try:
            yield from shipments(job.column, job.rows, max_bytes=self._staging.buffer_bytes)
        except Exception:
            while self._filling:
                self._send_oldest()
            while self._returning:
                self._returned()
            raise

    def _begun(self, column: Column, shipment: Shipment) -> Load:
        """A shipment whose bytes are being copied."""
        content, num_chunks = shipment.content, len(shipment.device_chunks)
        with self._on_device():
            buffer = self._staging.buffers.popleft()
            buffer.wait()
            hashes = column.lane.hashes(column.num_rows, column.num_rows + shipment.num_rows)
            digests = column.lane.digests(num_chunks) if num_chunks else None
        column.sent.append(shipment)
        column.num_rows += shipment.num_rows
        copies = [begin(shipment.prove_on_host)] if shipment.has_host_proof else []
        for first in range(0, content.size, PIECE_BYTES):
            piece = content[first : first + PIECE_BYTES]
            target = buffer.host[first : first + len(piece)]
            copies.append(begin(partial(np.copyto, target, piece)))
        return Load(
            column=column,
            shipment=shipment,
            buffer=buffer,
            hashes=hashes,
            digests=digests,
            copies=copies,
        )

    def _send_oldest(self) -> None:
        """Enqueue what is to be done with the buffer that was begun first, once it is full."""
        load = self._filling[0]
        try:
            for copy in load.copies:
                copy.result()
        except Exception:
            # What is wrong with the columns before comes first.
            while self._returning and self._is_sent(self._returning[0]):
                self._returned()
            raise
        self._filling.popleft()
        with self._on_device():
            load.buffer.upload(load.shipment.content.size, stream=load.column.lane.stream)
            self._work(load)
            load.buffer.record_use(load.column.lane.stream)
        self._staging.buffers.append(load.buffer)
        self._num_sent += 1
        load.column.sent_before = self._num_sent

    def _is_sent(self, column: Column) -> bool:
        """Whether all buffers of a column that was begun to its end are sent."""
        return not self._filling or self._filling[0].column is not column

    def _is_due(self) -> bool:
        """Whether the first column is sent, and so many after it that the device is through."""
        if not self._returning or not self._is_sent(self._returning[0]):
            return False
        return self._num_sent >= self._returning[0].sent_before + _BUFFERS_BEHIND

    def _returned(self) -> NDArray[np.uint64]:
        """The hashes of the first column, all of which is proven by now."""
        column = self._returning.popleft()
        with self._on_device():
            hashes, digests = column.lane.returned(column.num_rows)
        self._staging.give_back_lane(column.lane)
        compare_digests(column.sent, digests)
        return picked_hashes(column.sent, hashes, column.job.rows)
