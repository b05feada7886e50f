"""A second, independent model of the launches: lists of rows in, lists of rows out.

Written from DESIGN.md 3 apart from `kernels/*/reference.py` and sharing nothing with it, not even
the constants: if the two agree, a wrong reading of the rules had to be made twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

MODULUS = 2**64
ANCHOR = 0xDE7FAE23A9A1B716


class Record(NamedTuple):
    """The canary of a slot, unsigned."""

    token: int
    position: int
    prev_hash: int
    real_kv_hash: int


class Entry(NamedTuple):
    """What one entry of a verify plan expects; token and hashes modulo 2^64."""

    slot: int
    prev: int
    token: int
    position: int
    real_kv_hash: int = 0


def mix(x: int) -> int:
    """The finaliser, each step a factor or a division by a power of two."""
    x %= MODULUS
    x ^= x // 2**30
    x = x * 13787848793156543929 % MODULUS
    x ^= x // 2**27
    x = x * 10723151780598845931 % MODULUS
    return x ^ x // 2**31


def link(record: Record) -> int:
    """The hash that the successor of a record stores."""
    hashed = 0
    for word in (record.prev_hash, record.token, record.position):
        hashed = mix(hashed ^ (word % MODULUS))
    return hashed


def fold(data: bytes) -> int:
    """The source hash of bytes."""
    padded = data + b"\0" * (-len(data) % 8)
    hashed = 0
    for (word,) in struct.iter_unpack("<Q", padded):
        hashed = mix(hashed ^ word)
    return hashed


def combined(source_hashes: Sequence[int]) -> int:
    """The real_kv_hash of several sources."""
    hashed = 0
    for source_hash in source_hashes:
        hashed = mix(hashed ^ source_hash)
    return hashed


def verify(
    records: Sequence[Record], entries: Sequence[Entry], *, tag: int, check_tokens: bool
) -> tuple[list[int], list[list[int]]]:
    """Reason bits of each entry, and the ring's rows."""
    all_bits, rows = [], []
    for entry in entries:
        bits, row = _judge(records, entry, check_tokens=check_tokens)
        all_bits.append(bits)
        if bits:
            rows.append([field % MODULUS for field in (tag, *row, bits)])
    return all_bits, rows


def _judge(records: Sequence[Record], entry: Entry, *, check_tokens: bool) -> tuple[int, list[int]]:
    expected_token = entry.token if check_tokens else -1
    if entry.slot == 0:
        return 0, []
    if entry.slot not in range(len(records)):
        return 2**16, [entry.slot, 0, 0, expected_token, 0, 0]
    record = records[entry.slot]
    bits = 0
    wanted_hash = record.prev_hash
    if entry.prev < 0:
        wanted_hash = ANCHOR
    elif entry.prev >= len(records):
        bits += 2**17
    elif entry.prev > 0:
        wanted_hash = link(records[entry.prev])
    bits += 1 * (wanted_hash != record.prev_hash)
    bits += 2 * (entry.position % MODULUS != record.position)
    bits += 4 * (entry.real_kv_hash != record.real_kv_hash)
    has_token = expected_token % MODULUS != MODULUS - 1
    bits += 32 * (has_token and expected_token % MODULUS != record.token)
    row = [
        entry.slot,
        record.position,
        record.token,
        expected_token,
        record.prev_hash,
        wanted_hash,
    ]
    return bits, row


class Input(NamedTuple):
    """One token to write, with the pair that the engine's input assert expects."""

    token: int
    position: int
    slot: int
    expected: tuple[int, int] | None = None
    real_kv_hash: int = 0


def write(
    records: Sequence[Record],
    requests: Sequence[tuple[int, Sequence[Input]]],
    *,
    tag: int,
    assert_chain: bool,
) -> tuple[list[Record], list[list[int]], int]:
    """Records, ring rows and the count of stored entries after requests of (seed, inputs)."""
    records, rows, stored = list(records), [], 0
    for seed, inputs in requests:
        known = seed in range(len(records))
        if inputs and seed >= len(records):
            rows.append([tag, seed, 0, 0, 0, 0, 0, 2**17])
        running = link(records[seed]) if known else ANCHOR
        last_position = records[seed].position if known and assert_chain else None
        for item in inputs:
            if item.slot < 0:
                continue
            row = [tag, item.slot, item.position, item.token]
            if item.slot >= len(records):
                rows.append([*row, item.token, running, item.position, 2**16])
            else:
                if item.expected is not None and item.expected != (item.token, item.position):
                    token_differs = item.expected[0] != item.token
                    position_differs = item.expected[1] != item.position
                    bits = 8 * token_differs + 16 * position_differs
                    rows.append([*row, item.expected[0], running, item.expected[1], bits])
                if last_position is not None and item.position != (last_position + 1) % MODULUS:
                    rows.append([*row, item.token, running, (last_position + 1) % MODULUS, 16])
                records[item.slot] = Record(item.token, item.position, running, item.real_kv_hash)
                stored += 1
            if last_position is not None:
                last_position = item.position
            running = link(Record(item.token, item.position, running, 0))
    return records, rows, stored


class Request(NamedTuple):
    """A row of a batch: the slots and tokens of its request, and how many of them are known."""

    slots: Sequence[int]
    prefix: int
    extend: int
    tokens: Sequence[int] = ()
    is_padding: bool = False


def plan(
    requests: Sequence[Request],
    *,
    window: int,
    offset: int,
    swa_slots: Sequence[int] | None,
) -> tuple[list[Entry], list[int], list[int]]:
    """Entries to verify, where each request's tokens to write begin and end, and the seeds.

    A request's tokens end where its known ones do; slots lie inside swa_slots, if there are any.
    """
    entries, bounds, seeds = [], [0], []
    for request in requests:
        slots = [
            slot if swa_slots is None or slot < 0 else swa_slots[slot] for slot in request.slots
        ]
        known = {position - offset: token for position, token in enumerate(request.tokens)}
        chain = [
            Entry(slot, prev, known.get(position, -1), position)
            for position, (prev, slot) in enumerate(zip([-1, *slots], slots, strict=False))
        ]
        prefix = 0 if request.is_padding else max(0, request.prefix)
        reach = chain[:prefix]
        entries += reach[-window:] if window else reach
        extend = 0 if request.is_padding else max(0, request.extend)
        bounds.append(bounds[-1] + extend)
        seeds.append(reach[-1].slot if extend and prefix else -1)
    return entries, bounds, seeds
