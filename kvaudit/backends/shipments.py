"""Windows of a KV column that travel to a device together, with all of the chunks that prove them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.window_walk import WindowTask, wanted_windows
from kvaudit.core.kv_column import WINDOW_BYTES, DigestedBytes, KvColumn, KvWindow
from kvaudit.errors import DeviceFailed

_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shipment:
    """Consecutive rows, and what proves them.

    Fields:
        content: bytes to send, shape [num_bytes], uint8, contiguous: whole chunks from the first
            on, but for the last row, which may end in a chunk that is not proven here.
        first_byte: where the first row begins in it.
        num_rows: rows, wanted or not.
        first_row: the row of the snapshot that the first one is.
        first: index of the first wanted row in the selection.
        last: index after the last wanted row.
        digested: whose chunks are proven; None: `window` proves itself.
        chunks: numbers of those chunks.
        window: the only window of a shipment without chunks.
    """

    content: NDArray[np.uint8]
    first_byte: int
    num_rows: int
    first_row: int
    first: int
    last: int
    digested: DigestedBytes | None = None
    chunks: range = range(0)
    window: KvWindow | None = None

    @property
    def device_chunks(self) -> range:
        """The chunks that can be hashed where they are sent: whole ones, from the content's begin."""
        if self.digested is None:
            return range(0)
        whole = self.digested.content.size // self.digested.chunk_bytes
        return range(self.chunks.start, min(self.chunks.stop, whole))

    @property
    def chunk_bytes(self) -> int:
        """Bytes a chunk; 0 without any."""
        return 0 if self.digested is None else self.digested.chunk_bytes

    @property
    def has_host_proof(self) -> bool:
        """Whether `prove_on_host` has anything to do."""
        return self.window is not None or len(self.device_chunks) < len(self.chunks)

    def prove_on_host(self) -> None:
        """Prove what is not left to the device.

        Raises:
            FileCorrupt: a chunk's digest differs.
        """
        if self.window is not None:
            self.window.check()
        if self.digested is not None:
            for chunk in self.chunks[len(self.device_chunks) :]:
                self.digested.prove_chunk(chunk)


def largest_shipment(column: KvColumn) -> int:
    """Bytes, in whole KiB, that a shipment of one window may have: its rows end in a second chunk."""
    return -(-2 * (WINDOW_BYTES + column.row_bytes) // _KIB) * _KIB


def shipments(column: KvColumn, rows: NDArray[np.int64], *, max_bytes: int) -> Iterator[Shipment]:
    """The windows that hold a wanted row, as few shipments as possible, in ascending order.

    Args:
        column: the KV bytes.
        rows: wanted rows, shape [n], int64, strictly ascending.
        max_bytes: size of a shipment of several windows.
    """
    group: list[WindowTask] = []
    for task in wanted_windows(column, rows):
        if group and not _joins(group, task, max_bytes=max_bytes):
            yield _shipment(group)
            group = []
        group.append(task)
    if group:
        yield _shipment(group)


def _joins(group: Sequence[WindowTask], task: WindowTask, *, max_bytes: int) -> bool:
    """Whether a window's bytes follow those of a group, and all of them may travel together."""
    digested = group[0].window.digested
    if digested is None or task.window.digested is not digested or not group[-1].next_is_wanted:
        return False
    first_byte, last_byte, _ = _span([group[0], task], digested)
    return last_byte - first_byte <= max_bytes


def _span(group: Sequence[WindowTask], digested: DigestedBytes) -> tuple[int, int, range]:
    """First byte and last byte of a group from its first window to its last, and its chunks."""
    first_byte = group[0].window.first_byte
    last_window = group[-1].window
    last_byte = last_window.first_byte + last_window.data.size
    if not digested.digests.size:
        return first_byte, last_byte, range(0)
    chunk_bytes = digested.chunk_bytes
    end_chunk = -(-last_byte // chunk_bytes)
    if group[-1].next_is_wanted and last_byte < digested.content.size:
        # The chunk in which the next window begins is that window's own.
        end_chunk = last_byte // chunk_bytes
    chunks = range(first_byte // chunk_bytes, end_chunk)
    end_byte = min(end_chunk * chunk_bytes, digested.content.size)
    return chunks.start * chunk_bytes, max(last_byte, end_byte), chunks


def _shipment(group: Sequence[WindowTask]) -> Shipment:
    window = group[0].window
    num_rows = group[-1].window.first_row + len(group[-1].window.data) - window.first_row
    first, last = group[0].first, group[-1].last
    digested = window.digested
    if digested is None:
        return Shipment(
            content=np.ascontiguousarray(window.data).reshape(-1),
            first_byte=0,
            num_rows=num_rows,
            first_row=window.first_row,
            first=first,
            last=last,
            window=window,
        )
    first_byte, last_byte, chunks = _span(group, digested)
    return Shipment(
        content=digested.content[first_byte:last_byte],
        first_byte=window.first_byte - first_byte,
        num_rows=num_rows,
        first_row=window.first_row,
        first=first,
        last=last,
        digested=digested,
        chunks=chunks,
    )


def compare_digests(shipment: Shipment, digests: NDArray[np.uint64]) -> None:
    """Compare what a device hashed with what was written.

    Args:
        shipment: what was sent.
        digests: of its `device_chunks`, shape [n], uint64.

    Raises:
        FileCorrupt: the digest of a chunk differs.
        DeviceFailed: it differs on the device alone.
    """
    digested, chunks = shipment.digested, shipment.device_chunks
    if digested is None:
        return
    differing = np.flatnonzero(digested.digests[chunks.start : chunks.stop] != digests)
    if differing.size:
        digested.prove_chunk(chunks[int(differing[0])])
        raise DeviceFailed(
            "the CUDA device hashed bytes differently from the host",
            hint="look at the device with nvidia-smi, or run it on the CPU",
        )


def picked_hashes(
    shipment: Shipment, hashes: NDArray[np.uint64], rows: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """A copy of the hashes of the wanted rows, shape [n], uint64.

    Args:
        shipment: what was sent.
        hashes: of all its rows, in order, shape [m], uint64.
        rows: the selection that its wanted rows are a part of, shape [k], int64.
    """
    wanted = rows[shipment.first : shipment.last]
    first, last = int(wanted[0]) - shipment.first_row, int(wanted[-1]) + 1 - shipment.first_row
    if last - first == len(wanted):
        return hashes[first:last].copy()
    picked: NDArray[np.uint64] = hashes[wanted - shipment.first_row]
    return picked
