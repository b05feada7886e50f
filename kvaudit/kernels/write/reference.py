"""`write` as DESIGN.md 3 words it, on Python ints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    MASK64,
    NO_SEED,
    RECORD_POSITION,
    RECORD_WORDS,
    FailReason,
)
from kvaudit.kernels.hash.reference import slot_hash, splitmix64_mix3
from kvaudit.kernels.verify.reference import append_row, count


class Entry(NamedTuple):
    """A token to write; expected: its token and position as the input assert has them, or None."""

    slot: int
    token: int
    position: int
    expected: tuple[int, int] | None
    real_kv_hash: int


class Record(NamedTuple):
    """What a row says of an entry; a record's first words, in their order."""

    token: int
    position: int
    chain_hash: int


@dataclass(frozen=True, slots=True, eq=False)
class _Ring:
    """Where a launch's rows go; fields as in the contract."""

    violation_ring: NDArray[np.uint64]
    violation_write_index: NDArray[np.int32]
    launch_tag: int

    def append(
        self, slot: int, record: Record, *, expected: tuple[int, int], reasons: FailReason
    ) -> None:
        """A row; expected: token, aux."""
        expected_token, aux = expected
        token, position, chain_hash = record
        row = (self.launch_tag, slot, position, token, expected_token, chain_hash, aux, reasons)
        append_row(self.violation_ring, self.violation_write_index, row)


def _input_reasons(entry: Entry, expected: tuple[int, int]) -> FailReason:
    """Both bits of the input assert; expected: token, position."""
    expected_token, expected_position = expected
    reasons = FailReason(0)
    if entry.token != expected_token:
        reasons |= FailReason.WRITE_TOKEN_MISMATCH
    if entry.position != expected_position:
        reasons |= FailReason.WRITE_POSITION_MISMATCH
    return reasons


def _assert_entry(entry: Entry, record: Record, *, previous: int | None, ring: _Ring) -> None:
    """The input assert, then the chain assert; previous None: there is no chain to assert."""
    if entry.expected is not None:
        reasons = _input_reasons(entry, entry.expected)
        if reasons:
            ring.append(entry.slot, record, expected=entry.expected, reasons=reasons)
    if previous is not None:
        following = (previous + 1) & MASK64
        if entry.position != following:
            expected = (entry.token, following)
            reasons = FailReason.WRITE_POSITION_MISMATCH
            ring.append(entry.slot, record, expected=expected, reasons=reasons)


def _write_request(
    seed: int,
    entries: Iterator[Entry],
    *,
    asserts_chains: bool,
    canary_records: NDArray[np.uint64],
    ring: _Ring,
) -> int:
    """One request's entries, in order; how many were stored."""
    num_slots = canary_records.shape[0]
    if seed >= num_slots:
        reasons = FailReason.PREV_SLOT_OUT_OF_RANGE
        ring.append(seed, Record(0, 0, 0), expected=(0, 0), reasons=reasons)
        seed = NO_SEED
    running = slot_hash(canary_records, seed)
    asserts_chain = asserts_chains and seed >= 0
    previous = int(canary_records[seed, RECORD_POSITION]) if asserts_chain else None
    num_stored = 0
    for entry in entries:
        if entry.slot < 0:
            continue
        record = Record(entry.token, entry.position, running)
        if entry.slot >= num_slots:
            expected = (entry.token, entry.position)
            reasons = FailReason.SLOT_OUT_OF_RANGE
            ring.append(entry.slot, record, expected=expected, reasons=reasons)
        else:
            _assert_entry(entry, record, previous=previous, ring=ring)
            canary_records[entry.slot, :RECORD_WORDS] = (*record, entry.real_kv_hash)
            num_stored += 1
        previous = entry.position if asserts_chain else None
        running = splitmix64_mix3(running, entry.token, entry.position)
    return num_stored


def launch_write(
    write_offsets: NDArray[np.int64],
    write_seed_slot_indices: NDArray[np.int64],
    write_num_valid_reqs: NDArray[np.int32],
    input_ids: NDArray[np.uint64],
    positions: NDArray[np.uint64],
    out_cache_loc: NDArray[np.int64],
    expected_input_tokens: NDArray[np.uint64],
    expected_input_positions: NDArray[np.uint64],
    real_kv_hashes: NDArray[np.uint64],
    enable_chain_position_assert: NDArray[np.int32],
    canary_records: NDArray[np.uint64],
    violation_ring: NDArray[np.uint64],
    violation_write_index: NDArray[np.int32],
    slot_run_counter: NDArray[np.int64],
    kernel_run_counter: NDArray[np.int64],
    launch_tag: int,
) -> None:
    """The contract of `kvaudit.kernels.write`."""

    def entry_at(idx: int) -> Entry:
        expected = None
        if expected_input_tokens.shape[0]:
            expected = (int(expected_input_tokens[idx]), int(expected_input_positions[idx]))
        return Entry(
            slot=int(out_cache_loc[idx]),
            token=int(input_ids[idx]),
            position=int(positions[idx]),
            expected=expected,
            real_kv_hash=int(real_kv_hashes[idx]) if real_kv_hashes.shape[0] else 0,
        )

    ring = _Ring(violation_ring, violation_write_index, launch_tag)
    num_tokens = input_ids.shape[0]
    count(kernel_run_counter, 1)
    for request in range(max(0, min(int(write_num_valid_reqs[0]), len(write_seed_slot_indices)))):
        first = max(0, min(int(write_offsets[request]), num_tokens))
        last = max(0, min(int(write_offsets[request + 1]), num_tokens))
        if first < last:
            num_stored = _write_request(
                int(write_seed_slot_indices[request]),
                map(entry_at, range(first, last)),
                asserts_chains=bool(enable_chain_position_assert[0] != 0),
                canary_records=canary_records,
                ring=ring,
            )
            count(slot_run_counter, num_stored)
