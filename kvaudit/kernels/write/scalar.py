"""One request's chain: its asserts, rows and records, compiled by njit and by cuda.jit alike.

Slots are int64; tokens, positions and hashes are uint64.
"""

from __future__ import annotations

import numpy as np

from kvaudit import constants
from kvaudit.constants import FailReason

_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH
_NO_SEED = np.int64(constants.NO_SEED)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_NO_REASONS = np.uint64(0)
_TOKEN_MISMATCH = np.uint64(FailReason.WRITE_TOKEN_MISMATCH)
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)
_POSITION_MISMATCH = np.uint64(FailReason.WRITE_POSITION_MISMATCH)


def store_record(canary_records, slot_idx, token, position, prev_hash, real_kv_hash):
    """Fill the four words of a record; slot_idx is inside the pool."""
    canary_records[slot_idx, _TOKEN] = token
    canary_records[slot_idx, _POSITION] = position
    canary_records[slot_idx, _PREV_HASH] = prev_hash
    canary_records[slot_idx, _REAL_KV_HASH] = real_kv_hash


def make_assert_input(compiled_append_row):
    """The body of the input assert, over a compiled append_row."""

    def assert_input(
        violation_ring,
        violation_write_index,
        launch_tag,
        slot_idx,
        position,
        token,
        expected_token,
        chain_hash,
        expected_position,
    ):
        # One row with both bits.
        reasons = _NO_REASONS
        if token != expected_token:
            reasons |= _TOKEN_MISMATCH
        if position != expected_position:
            reasons |= _POSITION_MISMATCH
        if reasons != _NO_REASONS:
            compiled_append_row(
                violation_ring,
                violation_write_index,
                launch_tag,
                slot_idx,
                position,
                token,
                expected_token,
                chain_hash,
                expected_position,
                reasons,
            )

    return assert_input


def make_assert_chain(compiled_append_row):
    """The body of the chain assert, over a compiled append_row."""

    def assert_chain(
        violation_ring,
        violation_write_index,
        launch_tag,
        slot_idx,
        position,
        token,
        chain_hash,
        previous,
    ):
        # A position follows the one before it, modulo 2^64.
        expected_position = previous + _ONE
        if position != expected_position:
            compiled_append_row(
                violation_ring,
                violation_write_index,
                launch_tag,
                slot_idx,
                position,
                token,
                token,
                chain_hash,
                expected_position,
                _POSITION_MISMATCH,
            )

    return assert_chain


def make_chain_seed(compiled_append_row):
    """The body of chain_seed, over a compiled append_row."""

    def chain_seed(violation_ring, violation_write_index, launch_tag, seed_slot_idx, num_slots):
        # The slot that a chain continues from; past the pool it is reported, and the chain a head.
        if seed_slot_idx < num_slots:
            return seed_slot_idx
        compiled_append_row(
            violation_ring,
            violation_write_index,
            launch_tag,
            seed_slot_idx,
            _ZERO,
            _ZERO,
            _ZERO,
            _ZERO,
            _ZERO,
            _PREV_SLOT_OUT_OF_RANGE,
        )
        return _NO_SEED

    return chain_seed


def make_write_request(
    compiled_slot_hash,
    compiled_splitmix64_mix3,
    compiled_append_row,
    compiled_chain_seed,
    compiled_assert_input,
    compiled_assert_chain,
    compiled_store_record,
):
    """The body of write_request, over what it calls."""

    def write_request(
        first_entry,
        last_entry,
        seed_slot_idx,
        input_ids,
        positions,
        out_cache_loc,
        expected_tokens,
        expected_positions,
        real_kv_hashes,
        asserts_chains,
        canary_records,
        violation_ring,
        violation_write_index,
        launch_tag,
    ):
        # Stamp the entries of one request, of which there are some; how many were stored.
        num_slots = canary_records.shape[0]
        seed_slot_idx = compiled_chain_seed(
            violation_ring, violation_write_index, launch_tag, seed_slot_idx, num_slots
        )
        running = compiled_slot_hash(canary_records, seed_slot_idx)
        asserts_chain = asserts_chains and seed_slot_idx >= 0
        previous = canary_records[seed_slot_idx, _POSITION] if asserts_chain else _ZERO
        num_stored = 0
        for entry_idx in range(first_entry, last_entry):
            slot_idx = out_cache_loc[entry_idx]
            if slot_idx < 0:
                continue
            token = input_ids[entry_idx]
            position = positions[entry_idx]
            if slot_idx >= num_slots:
                compiled_append_row(
                    violation_ring,
                    violation_write_index,
                    launch_tag,
                    slot_idx,
                    position,
                    token,
                    token,
                    running,
                    position,
                    _SLOT_OUT_OF_RANGE,
                )
            else:
                if expected_tokens.shape[0] > 0:
                    compiled_assert_input(
                        violation_ring,
                        violation_write_index,
                        launch_tag,
                        slot_idx,
                        position,
                        token,
                        expected_tokens[entry_idx],
                        running,
                        expected_positions[entry_idx],
                    )
                if asserts_chain:
                    compiled_assert_chain(
                        violation_ring,
                        violation_write_index,
                        launch_tag,
                        slot_idx,
                        position,
                        token,
                        running,
                        previous,
                    )
                real_kv_hash = real_kv_hashes[entry_idx] if real_kv_hashes.shape[0] > 0 else _ZERO
                compiled_store_record(
                    canary_records, slot_idx, token, position, running, real_kv_hash
                )
                num_stored += 1
            previous = position
            running = compiled_splitmix64_mix3(running, token, position)
        return num_stored

    return write_request
