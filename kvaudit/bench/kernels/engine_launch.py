"""Launches in the shape that an engine gives its own canary kernels: the baseline of a benchmark.

A grid of 64 blocks of 512 threads whatever the device, one thread an entry, KV read with 16-byte
loads and folded serially in that thread; `write` has one thread a request, which folds each entry's
KV in line. The meaning is that of the contracts in `kvaudit.kernels`, less the asserts that a
benchmark leaves off; equality is proved before it is timed.
"""

from __future__ import annotations

import warnings

import numpy as np

from kvaudit import constants
from kvaudit.bench.kernels.load_pair import load_pair
from kvaudit.constants import FailReason
from kvaudit.kernels.array_forms import KernelArray
from kvaudit.kernels.cuda_module import (
    SIMULATED,
    WARP_THREADS,
    Kernel,
    atomic_add,
    cuda,
    device_function,
    kernel,
)
from kvaudit.kernels.hash.numba_cuda import slot_hash, splitmix64, splitmix64_mix3
from kvaudit.kernels.verify import scalar as verify_scalar
from kvaudit.kernels.write import scalar as write_scalar

GRID = (2, WARP_THREADS // 4) if SIMULATED else (64, 512)

_PAIR_WORDS = 2
_ZERO = np.uint64(0)
_NO_REASONS = np.uint64(0)
_SLOT_OUT_OF_RANGE = np.uint64(FailReason.SLOT_OUT_OF_RANGE)
_PREV_SLOT_OUT_OF_RANGE = np.uint64(FailReason.PREV_SLOT_OUT_OF_RANGE)
_TOKEN = constants.RECORD_TOKEN
_POSITION = constants.RECORD_POSITION
_PREV_HASH = constants.RECORD_PREV_HASH
_REAL_KV_HASH = constants.RECORD_REAL_KV_HASH

_judged_token = device_function(verify_scalar.judged_token)
_record_reasons = device_function(verify_scalar.record_reasons)
_store_row = device_function(verify_scalar.store_row)
_chain_reasons = device_function(write_scalar.chain_reasons)
_next_position = device_function(write_scalar.next_position)
_store_record = device_function(write_scalar.store_record)


@device_function
def _fold_slot(source_words, slot_idx, page_size, words_per_token, num_words):
    """The source hash of a slot of the pool, all of whose pages lie one after another."""
    row_words = page_size * words_per_token
    first_word = slot_idx // page_size * row_words + slot_idx % page_size * words_per_token
    last_word = first_word + num_words
    source_hash = _ZERO
    word_idx = first_word
    # Four loads are under way together, as a C++ compiler unrolls it.
    while word_idx + 4 * _PAIR_WORDS <= last_word:
        a, b = load_pair(source_words, word_idx)
        c, d = load_pair(source_words, word_idx + _PAIR_WORDS)
        e, f = load_pair(source_words, word_idx + 2 * _PAIR_WORDS)
        g, h = load_pair(source_words, word_idx + 3 * _PAIR_WORDS)
        for word in (a, b, c, d, e, f, g, h):
            source_hash = splitmix64(source_hash ^ word)
        word_idx += 4 * _PAIR_WORDS
    while word_idx < last_word:
        a, b = load_pair(source_words, word_idx)
        source_hash = splitmix64(source_hash ^ a)
        source_hash = splitmix64(source_hash ^ b)
        word_idx += _PAIR_WORDS
    return source_hash


@device_function
def _real_kv_hash(source_words, slot_idx, page_size, words_per_token, num_words):
    """real_kv_hash of one source; 0 where none is read."""
    if num_words == 0:
        return _ZERO
    return splitmix64(_fold_slot(source_words, slot_idx, page_size, words_per_token, num_words))


@kernel
def _engine_fold_kernel(
    source_words, slot_indices, source_hashes, page_size, words_per_token, num_words
):
    for entry_idx in range(cuda.grid(1), slot_indices.shape[0], cuda.gridsize(1)):
        source_hashes[entry_idx] = _fold_slot(
            source_words, slot_indices[entry_idx], page_size, words_per_token, num_words
        )


@kernel
def _engine_verify_kernel(
    canary_records,
    slot_indices,
    expected_tokens,
    expected_positions,
    prev_slot_indices,
    source_words,
    reason_bits,
    violation_ring,
    violation_write_index,
    launch_tag,
    page_size,
    words_per_token,
    num_words,
):
    num_slots = canary_records.shape[0]
    for entry_idx in range(cuda.grid(1), slot_indices.shape[0], cuda.gridsize(1)):
        slot_idx = slot_indices[entry_idx]
        prev_slot_idx = prev_slot_indices[entry_idx]
        expected_token = _judged_token(expected_tokens[entry_idx], True)
        token = position = chain_hash = aux = _ZERO
        reasons = _NO_REASONS
        if slot_idx < 0 or slot_idx >= num_slots:
            reasons = _SLOT_OUT_OF_RANGE
        elif slot_idx != constants.PADDING_SLOT:
            token = canary_records[slot_idx, _TOKEN]
            position = canary_records[slot_idx, _POSITION]
            chain_hash = aux = canary_records[slot_idx, _PREV_HASH]
            if prev_slot_idx != constants.PREDECESSOR_UNREACHABLE and prev_slot_idx < num_slots:
                aux = slot_hash(canary_records, prev_slot_idx)
            reasons = _record_reasons(
                token,
                position,
                chain_hash,
                canary_records[slot_idx, _REAL_KV_HASH],
                expected_token,
                expected_positions[entry_idx],
                aux,
                _real_kv_hash(source_words, slot_idx, page_size, words_per_token, num_words),
            )
            if prev_slot_idx >= num_slots:
                reasons |= _PREV_SLOT_OUT_OF_RANGE
        reason_bits[entry_idx] = np.uint32(reasons)
        if reasons != _NO_REASONS:
            _store_row(
                violation_ring,
                atomic_add(violation_write_index, 0, 1),
                launch_tag,
                slot_idx,
                position,
                token,
                expected_token,
                chain_hash,
                aux,
                reasons,
            )


@kernel
def _engine_write_kernel(
    write_offsets,
    seed_slot_indices,
    input_ids,
    positions,
    out_cache_loc,
    source_words,
    canary_records,
    violation_ring,
    violation_write_index,
    launch_tag,
    page_size,
    words_per_token,
    num_words,
):
    num_slots = canary_records.shape[0]
    for req_idx in range(cuda.grid(1), seed_slot_indices.shape[0], cuda.gridsize(1)):
        first_entry = write_offsets[req_idx]
        last_entry = write_offsets[req_idx + 1]
        if first_entry >= last_entry:
            continue
        seed_slot_idx = seed_slot_indices[req_idx]
        running = slot_hash(canary_records, seed_slot_idx)
        previous = canary_records[seed_slot_idx, _POSITION] if seed_slot_idx >= 0 else _ZERO
        # An entry is loaded while the one before it is hashed, as a C++ compiler orders it.
        next_slot_idx = out_cache_loc[first_entry]
        next_token = input_ids[first_entry]
        next_position = positions[first_entry]
        for entry_idx in range(first_entry, last_entry):
            slot_idx = next_slot_idx
            token = next_token
            position = aux = next_position
            next_entry = min(entry_idx + 1, last_entry - 1)
            next_slot_idx = out_cache_loc[next_entry]
            next_token = input_ids[next_entry]
            next_position = positions[next_entry]
            if slot_idx < 0:
                continue
            reasons = _NO_REASONS
            if slot_idx >= num_slots:
                reasons = _SLOT_OUT_OF_RANGE
            elif seed_slot_idx >= 0:
                reasons = _chain_reasons(position, previous)
                aux = _next_position(previous)
            if reasons != _NO_REASONS:
                _store_row(
                    violation_ring,
                    atomic_add(violation_write_index, 0, 1),
                    launch_tag,
                    slot_idx,
                    position,
                    token,
                    token,
                    running,
                    aux,
                    reasons,
                )
            if slot_idx < num_slots:
                hashed = _real_kv_hash(
                    source_words, slot_idx, page_size, words_per_token, num_words
                )
                _store_record(canary_records, slot_idx, token, position, running, hashed)
            previous = position
            running = splitmix64_mix3(running, token, position)


@kernel
def _engine_offsets_kernel(prefix_lens, verify_starts):
    if cuda.grid(1) == 0:
        total = np.int64(0)
        for row_idx in range(prefix_lens.shape[0]):
            verify_starts[row_idx] = total
            total += prefix_lens[row_idx]


@kernel
def _engine_plan_kernel(
    verify_starts,
    req_pool_indices,
    req_to_token,
    expected_tokens,
    verify_slot_indices,
    verify_expected_tokens,
    verify_expected_positions,
    verify_prev_slot_indices,
):
    num_rows = req_pool_indices.shape[0]
    for entry_idx in range(cuda.grid(1), verify_slot_indices.shape[0], cuda.gridsize(1)):
        low = 0
        high = num_rows
        while high - low > 1:
            middle = (low + high) // 2
            if verify_starts[middle] <= entry_idx:
                low = middle
            else:
                high = middle
        req_pool_idx = req_pool_indices[low]
        position = entry_idx - verify_starts[low]
        prev_slot_idx = np.int64(constants.NO_PREDECESSOR)
        if position > 0:
            prev_slot_idx = np.int64(req_to_token[req_pool_idx, position - 1])
        verify_slot_indices[entry_idx] = np.int64(req_to_token[req_pool_idx, position])
        verify_expected_tokens[entry_idx] = np.uint64(expected_tokens[req_pool_idx, position])
        verify_expected_positions[entry_idx] = np.uint64(position)
        verify_prev_slot_indices[entry_idx] = prev_slot_idx


def _launch(compiled_kernel: Kernel, arguments: tuple[KernelArray, ...]) -> None:
    with warnings.catch_warnings():
        # That an engine's grid leaves a large device idle is the point.
        warnings.filterwarnings("ignore", message=".*Grid size")
        compiled_kernel[GRID](*arguments)


def launch_engine_fold(*arguments: KernelArray) -> None:
    """Enqueue `fold`; the arguments of its kernel, in words where the contract has bytes."""
    _launch(_engine_fold_kernel, arguments)


def launch_engine_verify(*arguments: KernelArray) -> None:
    """Enqueue `verify`; the arguments of its kernel, in words where the contract has bytes."""
    _launch(_engine_verify_kernel, arguments)


def launch_engine_write(*arguments: KernelArray) -> None:
    """Enqueue `write`; the arguments of its kernel, in words where the contract has bytes."""
    _launch(_engine_write_kernel, arguments)


def launch_engine_plan(
    prefix_lens: KernelArray, verify_starts: KernelArray, *arguments: KernelArray
) -> None:
    """Enqueue the verify half of `plan`, without window or map: one thread scans the rows first.

    Args:
        prefix_lens: shape [bs], int64.
        verify_starts: where each row's entries begin, shape [bs], int64; written.
        arguments: those of its kernel but verify_starts.
    """
    _launch(_engine_offsets_kernel, (prefix_lens, verify_starts))
    _launch(_engine_plan_kernel, (verify_starts, *arguments))
