"""What faults do to the KV of slots: other content, none, or that of other slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PARTIAL_READ_BYTES, RECORD_REAL_KV_HASH, RealKvHashMode
from kvaudit.core.column_names import column_half, tail_of
from kvaudit.core.launch_tag import KvHalf
from kvaudit.diagnosis.byte_rows import folded, words_of
from kvaudit.kernels.hash.arrays import mixed
from kvaudit.runner.inject.copy import PoolCopy


def put_content(copy: PoolCopy, rows: NDArray[np.int64]) -> None:
    """Other KV into rows: finite, and never zero."""
    for name in copy.content_columns():
        if name in copy.snapshot.kv:
            row_bytes = copy.snapshot.kv[name].row_bytes
            data = copy.rng.integers(1, 256, (len(rows), row_bytes), dtype=np.uint8)
            # Without this bit no element of any float type is a NaN or an infinity.
            copy.set_bytes(name, rows, data & np.uint8(0xBF) | np.uint8(1))
        else:
            copy.digests(name)[rows] = copy.rng.integers(1, 1 << 63, len(rows), dtype=np.uint64)


def clear_content(copy: PoolCopy, rows: NDArray[np.int64], *, names: Sequence[str] = ()) -> None:
    """Zero the KV of rows; of some columns, or of all."""
    for name in names or copy.content_columns():
        if name in copy.snapshot.kv:
            row_bytes = copy.snapshot.kv[name].row_bytes
            copy.set_bytes(name, rows, np.zeros((len(rows), row_bytes), dtype=np.uint8))
        else:
            copy.digests(name)[rows] = 0


def copy_content(
    copy: PoolCopy,
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    *,
    names: Sequence[str] = (),
) -> None:
    """The KV of some rows into others, all at once; of some columns, or of all."""
    for name in names or copy.content_columns():
        if name in copy.snapshot.kv:
            copy.set_bytes(name, targets, copy.bytes_of(name, sources))
        else:
            digests = copy.digests(name)
            digests[targets] = digests[sources]


def move_rows(
    arrays: Iterable[NDArray[Any]], sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> None:
    """Let rows of arrays be what other rows of them are, all at once."""
    for array in arrays:
        array[targets] = array[sources]


def copy_slots(copy: PoolCopy, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
    """Records, stamps and KV of some rows into others, all at once."""
    move_rows((*copy.records(), *copy.stamps()), sources, targets)
    if copy.snapshot.kv or copy.snapshot.digests:
        copy_content(copy, sources, targets)


def stamp_content(copy: PoolCopy, rows: NDArray[np.int64]) -> None:
    """Stamps and combined hashes of what rows hold now, as their own writer leaves them."""
    snapshot = copy.snapshot
    held = copy.content_columns()
    for name in snapshot.stamped:
        if name in held:
            copy.stamp_of(name)[rows] = _source_hashes(copy, name, rows)
    for half in KvHalf if copy.combined(held) else ():
        if tail_of(half) in copy.stamped_buffers():
            running = np.zeros(len(rows), dtype=np.uint64)
            for name in snapshot.stamped_columns:
                if column_half(name) is half:
                    running = mixed(running ^ _source_hashes(copy, name, rows, combined=True))
            copy.records_of(tail_of(half))[rows, RECORD_REAL_KV_HASH] = running


def _source_hashes(
    copy: PoolCopy, name: str, rows: NDArray[np.int64], *, combined: bool = False
) -> NDArray[np.uint64]:
    if name not in copy.snapshot.kv:
        return copy.digests(name)[rows]
    length = copy.snapshot.kv[name].read_bytes
    if combined and copy.snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL:
        length = PARTIAL_READ_BYTES
    return folded(words_of(copy.bytes_of(name, rows)[:, :length]))
