"""`chain` on the CPU: a hash join in shares, each by one thread over a table of its own.

A share is the hashes with the same top bits. Its thread walks all hashes in slot order, which is
cheap, and keeps its own, so no two threads ever write to one place and the outcome does not depend
on them. Tables are open addressed, at most two thirds full.
"""

from __future__ import annotations

import secrets

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kvaudit import constants
from kvaudit.kernels.array_forms import read_only, widened_rows
from kvaudit.kernels.chain import scalar
from kvaudit.kernels.compilation import compiled
from kvaudit.kernels.hash.numba_cpu import slot_hash, splitmix64
from kvaudit.kernels.row_threads import run_rows

_ROWS_PER_TASK = 1 << 15
_SALT_BITS = 64
_PREV_HASH = constants.RECORD_PREV_HASH
_NO_PREDECESSOR = np.int64(constants.NO_PREDECESSOR)
_PREDECESSOR_UNREACHABLE = np.int64(constants.PREDECESSOR_UNREACHABLE)
_CHAIN_ANCHOR = np.uint64(constants.CHAIN_ANCHOR)
# No indexed slot is 0.
_EMPTY = np.int64(0)
_ONE = np.uint64(1)

_share_of = njit(scalar.share_of)
_place_of = njit(scalar.make_place_of(splitmix64))


@compiled
def _gather_rows(canary_records, slot_indices, slot_hashes, prev_hashes, first, last):
    for entry in range(first, last):
        slot_idx = slot_indices[entry]
        slot_hashes[entry] = slot_hash(canary_records, slot_idx)
        prev_hashes[entry] = canary_records[slot_idx, _PREV_HASH]


@compiled
def _count_share(slot_hashes, share):
    """How many slot hashes a share has."""
    count = 0
    for entry in range(slot_hashes.shape[0]):
        count += _share_of(slot_hashes[entry]) == share
    return count


@njit
def _find(table_hashes, first_slots, hashed, salt):
    """The place of a hash: where it stands, or the empty one where it would."""
    place_mask = np.uint64(table_hashes.shape[0]) - _ONE
    place = _place_of(hashed, salt, place_mask)
    while first_slots[place] != _EMPTY and table_hashes[place] != hashed:
        place = (place + _ONE) & place_mask
    return place


@compiled
def _join_share(
    slot_indices,
    slot_hashes,
    prev_hashes,
    prev_slot_indices,
    table_hashes,
    first_slots,
    last_slots,
    salt,
    share,
):
    """The predecessors of all entries that name a hash of this share; returns its duplicates."""
    num_duplicates = 0
    num_unresolved = 0
    for entry in range(slot_indices.shape[0]):
        prev_hash = prev_hashes[entry]
        if _share_of(prev_hash) == share:
            if prev_hash == _CHAIN_ANCHOR:
                prev_slot_indices[entry] = _NO_PREDECESSOR
            else:
                place = _find(table_hashes, first_slots, prev_hash, salt)
                # Of an empty place the last slot is 0: unreachable, so far.
                prev_slot_indices[entry] = last_slots[place]
                num_unresolved += last_slots[place] == _PREDECESSOR_UNREACHABLE
        hashed = slot_hashes[entry]
        if _share_of(hashed) == share:
            place = _find(table_hashes, first_slots, hashed, salt)
            if first_slots[place] == _EMPTY:
                table_hashes[place] = hashed
                first_slots[place] = slot_indices[entry]
            else:
                num_duplicates += 1
            last_slots[place] = slot_indices[entry]
    if num_unresolved:
        # Nothing lies below these: what they follow is above, or nowhere.
        for entry in range(slot_indices.shape[0]):
            prev_hash = prev_hashes[entry]
            if (
                _share_of(prev_hash) == share
                and prev_slot_indices[entry] == _PREDECESSOR_UNREACHABLE
            ):
                place = _find(table_hashes, first_slots, prev_hash, salt)
                prev_slot_indices[entry] = first_slots[place]
    return num_duplicates


KERNELS = (_gather_rows, _count_share, _join_share)


def launch_chain(
    canary_records: NDArray[np.uint64],
    slot_indices: NDArray[np.int64],
    prev_slot_indices: NDArray[np.int64],
    duplicate_counter: NDArray[np.int64],
) -> None:
    """The contract of `kvaudit.kernels.chain`."""
    records = widened_rows(canary_records)
    slots = read_only(slot_indices)
    slot_hashes = np.empty(slots.shape, np.uint64)
    prev_hashes = np.empty(slots.shape, np.uint64)
    salt = np.uint64(secrets.randbits(_SALT_BITS))
    duplicates: list[int] = []

    def gather_rows(first: int, last: int) -> None:
        _gather_rows(records, slots, slot_hashes, prev_hashes, first, last)

    def join_shares(first: int, last: int) -> None:
        for share in range(first, last):
            count = int(_count_share(slot_hashes, np.uint64(share)))
            capacity = 1 << (count + count // 2).bit_length()
            duplicates.append(
                _join_share(
                    slots,
                    slot_hashes,
                    prev_hashes,
                    prev_slot_indices,
                    np.empty(capacity, np.uint64),
                    np.zeros(capacity, np.int64),
                    np.zeros(capacity, np.int64),
                    salt,
                    np.uint64(share),
                )
            )

    run_rows(gather_rows, slots.shape[0], rows_per_task=_ROWS_PER_TASK)
    run_rows(join_shares, scalar.NUM_SHARES, rows_per_task=1)
    duplicate_counter += sum(duplicates)
