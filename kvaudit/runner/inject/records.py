"""Faults of the records: what stands in a slot is not what its sequence asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_TOKEN,
    UNKNOWN_TOKEN,
)
from kvaudit.kernels.hash.reference import splitmix64_mix3
from kvaudit.runner.inject.chains import Chain, Damage, damage_of
from kvaudit.runner.inject.content import clear_content, copy_slots, put_content, stamp_content
from kvaudit.runner.inject.copy import PoolCopy

# No vocabulary has these, so that no sequence is chained to one of them.
_FOREIGN_TOKENS: Final = (1 << 24, 1 << 28)
_MAX_RUN: Final = 4


def token_mismatch(copy: PoolCopy) -> Damage:
    """Stamp and chain another token at a position."""
    chain = copy.chains_with(2)[0]
    idx = copy.place_in(chain, first=0, last=len(chain))
    if chain.tokens[idx] == UNKNOWN_TOKEN:
        raise copy.refusal("the tokens of its requests")
    token = _foreign_token(copy)

    def put(records: NDArray[np.uint64]) -> None:
        records[0, RECORD_TOKEN] = token

    _restamp(copy, chain.rows[idx:], put)
    return damage_of(copy.snapshot, chain.rows[idx : idx + 1], chain)


def position_shift(copy: PoolCopy) -> Damage:
    """Stamp and chain positions that are off by a constant, in the second half of a request."""
    chain = copy.chains_with(4)[0]
    idx = copy.place_in(chain, first=len(chain) // 2, last=len(chain) - 1)
    delta = np.uint64(copy.rng.integers(3, 100))

    def put(records: NDArray[np.uint64]) -> None:
        records[:, RECORD_POSITION] += delta

    _restamp(copy, chain.rows[idx:], put)
    return damage_of(copy.snapshot, chain.rows[idx:], chain)


def undeclared_offset(copy: PoolCopy) -> Damage:
    """Stamp and chain every position of the pool one too high."""
    chains = [chain for chain in copy.chains if len(chain) > 1 and chain.first_position == 0]
    if not chains or len(chains) < len(copy.chains):
        raise copy.refusal("sequences from position 0 on that share no slots")

    def put(records: NDArray[np.uint64]) -> None:
        records[:, RECORD_POSITION] += np.uint64(1)

    for chain in chains:
        _restamp(copy, chain.rows, put)
    return damage_of(copy.snapshot, np.concatenate([chain.rows for chain in chains]), *chains)


def foreign_content(copy: PoolCopy) -> Damage:
    """Let slots of a request hold what another one has at the same positions."""
    copy.records()
    has_twin = _rows_with_twins(copy)
    for chain in copy.chains_with(2):
        for other in copy.chains:
            offset = chain.first_position - other.first_position
            last = min(len(chain), len(other) - offset)
            first = max(1, -offset)
            if other is chain or last <= first:
                continue
            # Behind a prompt that was computed twice: what it left is of whoever has it.
            twins = has_twin[chain.rows[first:last]]
            twins |= has_twin[other.rows[first + offset : last + offset]]
            if twins.any():
                first += int(np.flatnonzero(twins)[-1]) + 1
            if last <= first:
                continue
            idx = copy.place_in(chain, first=first, last=last)
            end = min(last, idx + _MAX_RUN)
            rows = chain.rows[idx:end]
            copy_slots(copy, other.rows[idx + offset : end + offset], rows)
            return damage_of(copy.snapshot, rows, chain)
    raise copy.refusal("two requests with slots of their own at the same positions")


def late_writer(copy: PoolCopy) -> Damage:
    """Write over a slot with the record and the KV of a chain that no sequence has."""
    chain = copy.chains_with(3)[0]
    idx = copy.place_in(chain, first=1, last=len(chain) - 1)
    row = chain.rows[idx]
    token, prev_hash = _foreign_token(copy), np.uint64(copy.rng.integers(1, 1 << 63))
    for records in copy.records():
        records[row, RECORD_TOKEN] = token
        records[row, RECORD_PREV_HASH] = prev_hash
    if copy.snapshot.kv or copy.snapshot.digests:
        put_content(copy, chain.rows[idx : idx + 1])
        stamp_content(copy, chain.rows[idx : idx + 1])
    return damage_of(copy.snapshot, chain.rows[idx : idx + 1], chain)


def page_permutation(copy: PoolCopy) -> Damage:
    """Let two pages change places, with their records and stamps."""
    pages = whole_pages(copy)
    for idx in copy.rng.permutation(len(pages)).tolist():
        chain, first, rows = pages[idx]
        for other, other_first, other_rows in pages[:idx]:
            positions = chain.first_position + first, other.first_position + other_first
            if positions[0] != positions[1]:
                copy_slots(
                    copy, np.concatenate((rows, other_rows)), np.concatenate((other_rows, rows))
                )
                return damage_of(copy.snapshot, np.concatenate((rows, other_rows)), chain, other)
    raise copy.refusal(NEEDS_PAGES)


def slot_shift(copy: PoolCopy) -> Damage:
    """Write the content of a request one entry too far, from some entry on."""
    chain = copy.chains_with(6)[0]
    # Not all of a lone request: that would be an offset of the whole pool.
    idx = copy.place_in(chain, first=len(chain) // 2, last=len(chain) - 2)
    copy_slots(copy, chain.rows[idx:-1], chain.rows[idx + 1 :])
    for array in (*copy.records(), *copy.stamps()):
        array[chain.rows[idx]] = 0
    if copy.snapshot.kv or copy.snapshot.digests:
        clear_content(copy, chain.rows[idx : idx + 1])
    return damage_of(copy.snapshot, chain.rows[idx + 1 : -1], chain)


def canary_bit_flip(copy: PoolCopy) -> Damage:
    """Turn one bit of a record's token, position or prev_hash over."""
    chain = copy.chains_with(3)[0]
    idx = copy.place_in(chain, first=1, last=len(chain) - 1)
    word = int(copy.rng.choice((RECORD_TOKEN, RECORD_POSITION, RECORD_PREV_HASH)))
    bit = np.uint64(1 << int(copy.rng.integers(63)))
    for records in copy.records():
        records[chain.rows[idx], word] ^= bit
    return damage_of(copy.snapshot, chain.rows[idx : idx + 1], chain)


def record_missing(copy: PoolCopy) -> Damage:
    """Zero the records of some slots, and leave their KV."""
    copy.content_columns()
    chain = copy.chains_with(2)[0]
    idx = copy.place_in(chain, first=0, last=len(chain))
    rows = chain.rows[idx : idx + _MAX_RUN]
    for records in copy.records():
        records[rows] = 0
    return damage_of(copy.snapshot, rows, chain)


NEEDS_PAGES: Final = "two whole pages of different positions, behind the first page of a request"


def whole_pages(copy: PoolCopy) -> list[tuple[Chain, int, NDArray[np.int64]]]:
    """Whole pages of a chain, each with the index of its first entry.

    No first page of a sequence, and none that is chained as another one is: nothing tells such pages
    from one another.

    Raises:
        ConfigError: there are less than two.
    """
    size = copy.snapshot.page_size
    has_twin = _rows_with_twins(copy)
    pages = []
    for chain in copy.chains_with(1):
        slots = copy.snapshot.slots[chain.rows]
        for first in np.flatnonzero(slots % size == 0).tolist():
            page = slots[first : first + size]
            rows = chain.rows[first : first + size]
            is_whole = len(page) == size and page[-1] == page[0] + size - 1
            if is_whole and chain.first_position + first > 0 and not has_twin[rows].any():
                pages.append((chain, first, rows))
    if len(pages) < 2:  # noqa: PLR2004 - a pair
        raise copy.refusal(NEEDS_PAGES)
    return pages


def _rows_with_twins(copy: PoolCopy) -> NDArray[np.bool_]:
    """Rows that are chained to the same as another row, shape [num_rows], bool.

    They are of a prompt that was computed twice, or the first behind it, which differs by its token
    alone.
    """
    has_twin = np.zeros(copy.snapshot.num_rows, dtype=np.bool_)
    for buffer in copy.stamped_buffers():
        prev_hashes = copy.snapshot.canary[buffer].read()[:, RECORD_PREV_HASH]
        _, inverse, counts = np.unique(prev_hashes, return_inverse=True, return_counts=True)
        has_twin |= counts[inverse] > 1
    return has_twin


def _foreign_token(copy: PoolCopy) -> np.uint64:
    return np.uint64(copy.rng.integers(*_FOREIGN_TOKENS))


def _restamp(
    copy: PoolCopy, rows: NDArray[np.int64], put: Callable[[NDArray[np.uint64]], None]
) -> None:
    """Write other tokens or positions into the records of consecutive entries, and chain them so."""
    for records in copy.records():
        written = records[rows]
        put(written)
        running = int(written[0, RECORD_PREV_HASH])
        for record in written:
            record[RECORD_PREV_HASH] = running
            running = splitmix64_mix3(
                running, int(record[RECORD_TOKEN]), int(record[RECORD_POSITION])
            )
        records[rows] = written
