"""Faults of the KV: it changed after it was stamped, or never arrived."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.column_names import column_layer, column_order
from kvaudit.diagnosis.nonfinite import knows
from kvaudit.kernels.hash.arrays import mixed, unmixed
from kvaudit.runner.inject.chains import Damage, damage_of
from kvaudit.runner.inject.content import clear_content, copy_content, put_content, stamp_content
from kvaudit.runner.inject.copy import PoolCopy
from kvaudit.runner.inject.records import whole_pages

_MIN_TORN_BYTES: Final = 32
_COMBINED_BYTES: Final = 16


def bytes_changed(copy: PoolCopy) -> Damage:
    """Put other KV into a slot."""
    copy.watched()
    chain = copy.chains_with(1)[0]
    idx = copy.place_in(chain, first=0, last=len(chain))
    if copy.snapshot.slots[chain.rows[idx]] == copy.snapshot.num_slots - 1:
        raise copy.refusal("another slot than the pool's last, which an index of -1 writes to")
    put_content(copy, chain.rows[idx : idx + 1])
    return damage_of(copy.snapshot, chain.rows[idx : idx + 1], chain)


def zero_tail(copy: PoolCopy) -> Damage:
    """Zero K and V of a request from some entry on."""
    names = [name for name in copy.watched() if column_layer(name) is not None]
    if not names:
        raise copy.refusal("stamps of K or V")
    chain = copy.chains_with(2)[0]
    idx = copy.place_in(chain, first=1, last=len(chain))
    clear_content(copy, chain.rows[idx:], names=names)
    return damage_of(copy.snapshot, chain.rows[idx:], chain)


def torn_row(copy: PoolCopy) -> Damage:
    """Let the second half of a slot's bytes be those of another slot, in every column."""
    names = [name for name in copy.watched() if name in copy.snapshot.kv]
    reach = min((copy.snapshot.kv[name].read_bytes for name in names), default=0)
    if reach < _MIN_TORN_BYTES or set(names) != set(copy.snapshot.kv):
        raise copy.refusal(f"stamped KV bytes, {_MIN_TORN_BYTES} or more a row")
    chain = copy.chains_with(2)[0]
    idx = copy.place_in(chain, first=1, last=len(chain))
    rows = chain.rows[idx : idx + 1]
    for name in names:
        data, half = copy.bytes_of(name, rows), copy.snapshot.kv[name].read_bytes // 2
        data[:, half:] = copy.bytes_of(name, chain.rows[idx - 1 : idx])[:, half:]
        copy.set_bytes(name, rows, data)
    return damage_of(copy.snapshot, rows, chain)


def kv_bit_flip(copy: PoolCopy) -> Damage:
    """Turn one bit of a slot's KV over, in one column."""
    name = str(copy.rng.choice(copy.watched()))
    chain = copy.chains_with(1)[0]
    idx = copy.place_in(chain, first=0, last=len(chain))
    rows = chain.rows[idx : idx + 1]
    if name in copy.snapshot.kv:
        data = copy.bytes_of(name, rows)
        # What a combined hash of leading bytes covers too.
        reach = min(copy.snapshot.kv[name].read_bytes, _COMBINED_BYTES)
        bit = int(copy.rng.integers(8 * reach))
        data[0, bit // 8] ^= np.uint8(1 << bit % 8)
        copy.set_bytes(name, rows, data)
    else:
        digests = copy.digests(name)
        last_word = unmixed(digests[rows]) ^ np.uint64(1 << int(copy.rng.integers(63)))
        digests[rows] = mixed(last_word)
    return damage_of(copy.snapshot, rows, chain)


def wrong_layout(copy: PoolCopy) -> Damage:
    """Let K and V of every layer change places, in the whole pool."""
    watched = copy.watched()
    pairs = [(name, name.replace("kv.k.", "kv.v.")) for name in watched if name[:5] == "kv.k."]
    is_alike = all(
        other in watched and _width(copy, name) == _width(copy, other) for name, other in pairs
    )
    if not pairs or not is_alike or not copy.snapshot.stamped:
        raise copy.refusal("stamped.* columns of K and of V, of the same width")
    rows = np.arange(copy.snapshot.num_rows, dtype=np.int64)
    for name, other in pairs:
        if name in copy.snapshot.kv:
            data = copy.bytes_of(name, rows)
            copy.set_bytes(name, rows, copy.bytes_of(other, rows))
            copy.set_bytes(other, rows, data)
        else:
            one, two = copy.digests(name), copy.digests(other)
            one[:], two[:] = two.copy(), one.copy()
    own = [np.empty(0, dtype=np.int64), *(chain.rows for chain in copy.chains)]
    return damage_of(copy.snapshot, np.concatenate(own), *copy.chains)


def _width(copy: PoolCopy, name: str) -> int | None:
    column = copy.snapshot.kv.get(name)
    return None if column is None else column.row_bytes


def nan_inf(copy: PoolCopy) -> Damage:
    """Put NaN into all columns of a slot, and stamp it as it is."""
    names = _typed_columns(copy)
    last = max((column_layer(name) or 0 for name in copy.snapshot.kv), default=0)
    if not any(column_layer(name) in (None, last) for name in names):
        raise copy.refusal("KV bytes of the last layer, of a known float type")
    chain = copy.chains_with(1)[0]
    idx = copy.place_in(chain, first=0, last=len(chain))
    rows = chain.rows[idx : idx + 1]
    _put_nan(copy, names, rows)
    stamp_content(copy, rows)
    return damage_of(copy.snapshot, rows, chain)


def reserved_slot_poisoned(copy: PoolCopy) -> Damage:
    """Put NaN into a reserved slot."""
    names = _typed_columns(copy)
    rows = np.flatnonzero(copy.snapshot.reserved_slots.mask(copy.snapshot.slots))[:1]
    if not rows.size:
        raise copy.refusal("a reserved slot in the dump")
    _put_nan(copy, names, rows)
    return damage_of(copy.snapshot, rows)


def _typed_columns(copy: PoolCopy) -> list[str]:
    names = [name for name, column in copy.snapshot.kv.items() if knows(column.dtype)]
    if not names:
        raise copy.refusal("KV bytes of a known float type")
    return sorted(names, key=column_order)


def _put_nan(copy: PoolCopy, names: list[str], rows: NDArray[np.int64]) -> None:
    """All bits set are a NaN in every float type."""
    for name in names:
        row_bytes = copy.snapshot.kv[name].row_bytes
        copy.set_bytes(name, rows, np.full((len(rows), row_bytes), 0xFF, dtype=np.uint8))


def side_buffer_stale(copy: PoolCopy) -> Damage:
    """Let the side buffers of a slot be those of another one."""
    names = [name for name in copy.watched() if column_layer(name) is None]
    if not names:
        raise copy.refusal("a stamped side buffer (kv.side.*)")
    chain = copy.chains_with(2)[0]
    idx = copy.place_in(chain, first=1, last=len(chain))
    copy_content(copy, chain.rows[idx - 1 : idx], chain.rows[idx : idx + 1], names=names)
    return damage_of(copy.snapshot, chain.rows[idx : idx + 1], chain)


def sentinel_write(copy: PoolCopy) -> Damage:
    """Let a slot hold what a padding row leaves in a reserved one."""
    copy.watched()
    reserved = np.flatnonzero(copy.snapshot.reserved_slots.mask(copy.snapshot.slots))[:1]
    if not reserved.size:
        raise copy.refusal("a reserved slot in the dump")
    chain = copy.chains_with(1)[0]
    idx = copy.place_in(chain, first=0, last=len(chain))
    put_content(copy, reserved)
    copy_content(copy, reserved, chain.rows[idx : idx + 1])
    return damage_of(copy.snapshot, chain.rows[idx : idx + 1], chain)


def bytes_permuted(copy: PoolCopy) -> Damage:
    """Let the KV of two pages change places, without their records and stamps."""
    copy.watched()
    pages = whole_pages(copy)
    one, other = copy.rng.permutation(len(pages))[:2].tolist()
    (chain, _, rows), (second, _, others) = pages[one], pages[other]
    sources, targets = np.concatenate((rows, others)), np.concatenate((others, rows))
    copy_content(copy, sources, targets)
    return damage_of(copy.snapshot, targets, chain, second)


def not_arrived(copy: PoolCopy) -> Damage:
    """Zero the records and the KV of all that a request holds alone."""
    chain = copy.chains_with(1)[0]
    for records in copy.records():
        records[chain.rows] = 0
        if not records.any():
            raise copy.refusal("records of other requests: without any, nothing was ever stamped")
    clear_content(copy, chain.rows)
    return damage_of(copy.snapshot, chain.rows, chain)
