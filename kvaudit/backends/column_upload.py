"""The shipments of one column through the buffers of a staging, filled by many threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvaudit.backends.cuda_staging import Buffer, Staging
from kvaudit.backends.fold_lane import FoldLane
from kvaudit.backends.shipments import Shipment
from kvaudit.kernels.array_forms import KernelArray

# Copied in one go: a thread needs the interpreter before and after, which on many cores is what all
# of them wait for.
PIECE_BYTES: Final = 4 << 20


@dataclass(slots=True, kw_only=True, eq=False)
class Load:
    """A shipment in its buffer.

    Fields:
        shipment: what is sent.
        buffer: where it is collected.
        first_row: number of its first row among all rows sent of the column.
        digests: where the digests of its chunks go, shape [num_chunks], uint64; None without any.
        num_missing: pieces that are not in the buffer yet.
    """

    shipment: Shipment
    buffer: Buffer
    first_row: int
    digests: KernelArray | None
    num_missing: int


class Piece(NamedTuple):
    """Bytes [first_byte, last_byte) of a shipment."""

    load: Load
    first_byte: int
    last_byte: int


class ColumnUpload:
    """One column: `pieces` gives out what there is to copy, `fill` copies it, on any thread.

    Args:
        shipments: what is sent, none larger than a buffer.
        lane: what keeps the digests of their chunks.
        staging: where the buffers come from.
        send: enqueues the upload and the work on a full buffer; on any thread.
        on_device: gives a context in which the staging's device is the current one.

    Fields:
        sent: the shipments given out so far, in order.
        num_rows: their rows.
    """

    def __init__(
        self,
        shipments: Iterable[Shipment],
        *,
        lane: FoldLane,
        staging: Staging,
        send: Callable[[Load], None],
        on_device: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.sent: list[Shipment] = []
        self.num_rows = 0
        self._shipments = shipments
        self._lane = lane
        self._staging = staging
        self._send = send
        self._on_device = on_device
        self._stopped = threading.Event()
        self._counting = threading.Lock()
        self._open: set[Buffer] = set()

    def pieces(self) -> Iterator[Piece]:
        """The pieces in order, each once there is a buffer for it; none once a fill failed."""
        for shipment in self._shipments:
            with self._on_device():
                buffer = self._staging.take(self._stopped)
                if buffer is None:
                    return
                self._open.add(buffer)
                firsts = range(0, max(1, shipment.content.size), PIECE_BYTES)
                load = self._load(shipment, buffer, num_pieces=len(firsts))
            for first in firsts:
                yield Piece(load, first, min(first + PIECE_BYTES, shipment.content.size))

    def _load(self, shipment: Shipment, buffer: Buffer, *, num_pieces: int) -> Load:
        num_chunks = len(shipment.device_chunks)
        load = Load(
            shipment=shipment,
            buffer=buffer,
            first_row=self.num_rows,
            digests=self._lane.digests(num_chunks) if num_chunks else None,
            num_missing=num_pieces,
        )
        self.sent.append(shipment)
        self.num_rows += shipment.num_rows
        return load

    def fill(self, piece: Piece) -> None:
        """Copy a piece, and send its shipment when it was the last one.

        Raises:
            FileCorrupt: the digest of a chunk that is proven on the host differs.
        """
        load, first, last = piece
        try:
            if first == 0:
                load.shipment.prove_on_host()
            load.buffer.host[first:last] = load.shipment.content[first:last]
            with self._counting:
                load.num_missing -= 1
                is_full = load.num_missing == 0
            if is_full:
                with self._on_device():
                    self._send(load)
                self._open.remove(load.buffer)
                self._staging.give_back(load.buffer)
        except BaseException:
            self._stopped.set()
            self._staging.wake()
            raise

    def close(self) -> None:
        """Give back what a failed upload has not sent; no thread is in `fill` any more."""
        while self._open:
            self._staging.give_back(self._open.pop())
