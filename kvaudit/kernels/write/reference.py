"""`write` as DESIGN.md 3 words it, on Python ints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    MASK64,
    NO_SEED,
    RECORD_POSITION,
    RECORD_WORDS,
    FailReason,
)
from kvaudit.kernels.hash.reference import mix3, slot_hash
from kvaudit.kernels.verify.reference import append_row, count


def _entry_ranges(
    write_offsets: NDArray[np.int64], num_requests: int, num_tokens: int
) -> Iterator[tuple[int, range]]:
    """Each request with its entries, [offsets[r], offsets[r + 1]) clamped to the token arrays."""
    for request in range(num_requests):
        first = max(0, min(int(write_offsets[request]), num_tokens))
        last = max(0, min(int(write_offsets[request + 1]), num_tokens))
        yield request, range(first, last)


def _input_reasons(entry: tuple[int, int], expected: tuple[int, int]) -> FailReason:
    """Both bits of the input assert; each pair is token, position."""
    reasons = FailReason(0)
    if entry[0] != expected[0]:
        reasons |= FailReason.WRITE_TOKEN_MISMATCH
    if entry[1] != expected[1]:
        reasons |= FailReason.WRITE_POSITION_MISMATCH
    return reasons


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Launch:
    """The arrays of one launch; fields as in the contract."""

    input_ids: NDArray[np.uint64]
    positions: NDArray[np.uint64]
    out_cache_loc: NDArray[np.int64]
    expected_input_tokens: NDArray[np.uint64]
    expected_input_positions: NDArray[np.uint64]
    real_kv_hashes: NDArray[np.uint64]
    asserts_chains: bool
    canary_records: NDArray[np.uint64]
    violation_ring: NDArray[np.uint64]
    violation_write_index: NDArray[np.int32]
    slot_run_counter: NDArray[np.int64]
    launch_tag: int

    def append(
        self, slot: int, record: tuple[int, int, int], expected: tuple[int, int], bits: int
    ) -> None:
        """A row of the ring; record: token, position, chain hash; expected: token, aux."""
        token, position, chain_hash = record
        row = (self.launch_tag, slot, position, token, expected[0], chain_hash, expected[1], bits)
        append_row(self.violation_ring, self.violation_write_index, row)

    def assert_input(self, entry: int, slot: int, record: tuple[int, int, int]) -> None:
        """Token and position against the expected pair."""
        if self.expected_input_tokens.shape[0] == 0:
            return
        expected_token = int(self.expected_input_tokens[entry])
        expected_position = int(self.expected_input_positions[entry])
        reasons = FailReason(0)
        if record[0] != expected_token:
            reasons |= FailReason.WRITE_TOKEN_MISMATCH
        if record[1] != expected_position:
            reasons |= FailReason.WRITE_POSITION_MISMATCH
        if reasons:
            self.append(slot, record, (expected_token, expected_position), reasons)

    def assert_chain(self, slot: int, record: tuple[int, int, int], previous: int) -> None:
        """Position == previous + 1."""
        following = (previous + 1) & MASK64
        if record[1] != following:
            expected = (record[0], following)
            self.append(slot, record, expected, FailReason.WRITE_POSITION_MISMATCH)

    def store(self, entry: int, slot: int, record: tuple[int, int, int]) -> None:
        """The record, with prev_hash = running, and its combined hash."""
        real_kv_hash = int(self.real_kv_hashes[entry]) if self.real_kv_hashes.shape[0] else 0
        self.canary_records[slot, :RECORD_WORDS] = (*record, real_kv_hash)
        count(self.slot_run_counter, 1)

    def write_request(self, seed: int, entries: range) -> None:
        """One request's entries, in order."""
        num_slots = self.canary_records.shape[0]
        if seed >= num_slots:
            self.append(seed, (0, 0, 0), (0, 0), FailReason.PREV_SLOT_OUT_OF_RANGE)
            seed = NO_SEED
        running = slot_hash(self.canary_records, seed)
        previous = int(self.canary_records[seed, RECORD_POSITION]) if seed >= 0 else 0
        asserts_chain = self.asserts_chains and seed >= 0
        for entry in entries:
            slot = int(self.out_cache_loc[entry])
            if slot < 0:
                continue
            token, position = int(self.input_ids[entry]), int(self.positions[entry])
            record = (token, position, running)
            if slot >= num_slots:
                self.append(slot, record, (token, position), FailReason.SLOT_OUT_OF_RANGE)
            else:
                self.assert_input(entry, slot, record)
                if asserts_chain:
                    self.assert_chain(slot, record, previous)
                self.store(entry, slot, record)
            previous = position
            running = mix3(running, token, position)


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
    launch = _Launch(
        input_ids=input_ids,
        positions=positions,
        out_cache_loc=out_cache_loc,
        expected_input_tokens=expected_input_tokens,
        expected_input_positions=expected_input_positions,
        real_kv_hashes=real_kv_hashes,
        asserts_chains=bool(enable_chain_position_assert[0] != 0),
        canary_records=canary_records,
        violation_ring=violation_ring,
        violation_write_index=violation_write_index,
        slot_run_counter=slot_run_counter,
        launch_tag=launch_tag,
    )
    count(kernel_run_counter, 1)
    num_requests = max(0, min(int(write_num_valid_reqs[0]), write_seed_slot_indices.shape[0]))
    for request, entries in _entry_ranges(write_offsets, num_requests, input_ids.shape[0]):
        if entries:
            launch.write_request(int(write_seed_slot_indices[request]), entries)
