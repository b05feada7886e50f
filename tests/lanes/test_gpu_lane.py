"""The gpu lane at size: what only a device shows, races, streams and full grids.

`pytest -m gpu` also runs every vector and every differential of `tests/kernels` on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvaudit.constants import (
    NO_PREDECESSOR,
    NO_SEED,
    RECORD_POSITION,
    RECORD_WORDS,
    VIOLATION_FIELDS,
    VIOLATION_SLOT,
    FailReason,
    LaunchTag,
)
from kvaudit.kernels.cuda_module import SIMULATED, cuda, on_stream
from tests.kernels.implementations import CPU, CUDA, Implementation

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(SIMULATED, reason="the simulator is no device"),
    pytest.mark.skipif(not SIMULATED and not cuda.is_available(), reason="no CUDA device"),
]

NUM_SLOTS = 1 << 18
SLOT_BYTES = 1024
NUM_REQUESTS = 5000
PAGE_SIZE = 16


def _counters() -> dict[str, np.ndarray]:
    return {
        "violation_write_index": np.zeros(1, dtype=np.int32),
        "slot_run_counter": np.zeros(1, dtype=np.int64),
        "kernel_run_counter": np.zeros(1, dtype=np.int64),
    }


def _fold(implementation: Implementation, read_bytes: int) -> np.ndarray:
    random = np.random.default_rng(17)
    rows = random.integers(0, 256, (NUM_SLOTS // PAGE_SIZE, PAGE_SIZE * SLOT_BYTES), np.uint8)
    hashes = np.ones(NUM_SLOTS, dtype=np.uint64)
    implementation.run(
        "fold",
        source_bytes=rows,
        slot_indices=random.permutation(NUM_SLOTS),
        source_hashes=hashes,
        page_size=PAGE_SIZE,
        num_bytes_per_token=SLOT_BYTES,
        read_bytes=read_bytes,
    )
    return hashes


@pytest.mark.parametrize("read_bytes", [16, SLOT_BYTES - 3, SLOT_BYTES])
def test_device_fold_of_a_large_pool_equals_the_cpu(read_bytes):
    np.testing.assert_array_equal(_fold(CUDA, read_bytes), _fold(CPU, read_bytes))


def _verify_wrong_positions(ring_capacity: int) -> tuple[dict[str, Any], np.ndarray]:
    """Every slot but padding holds a position that is not the expected one."""
    outputs = {
        "violation_ring": np.zeros((ring_capacity, VIOLATION_FIELDS), dtype=np.uint64),
        "reason_bits": np.zeros(NUM_SLOTS, dtype=np.uint32),
        **_counters(),
    }
    CUDA.run(
        "verify",
        canary_records=np.zeros((NUM_SLOTS, RECORD_WORDS), dtype=np.uint64),
        verify_slot_indices=np.arange(NUM_SLOTS),
        verify_expected_tokens=np.zeros(NUM_SLOTS, dtype=np.uint64),
        verify_expected_positions=np.ones(NUM_SLOTS, dtype=np.uint64),
        verify_prev_slot_indices=np.zeros(NUM_SLOTS, dtype=np.int64),
        verify_num_valid=np.array([NUM_SLOTS], dtype=np.int32),
        enable=np.ones(1, dtype=np.int32),
        real_kv_hashes=np.zeros(0, dtype=np.uint64),
        launch_tag=int(LaunchTag.TAIL_K_FULL),
        check_verify_expected_token=True,
        **outputs,
    )
    stored = outputs["violation_ring"][: min(ring_capacity, NUM_SLOTS - 1)]
    return outputs, stored[:, VIOLATION_SLOT]


@pytest.mark.parametrize("ring_capacity", [0, 1000, NUM_SLOTS])
def test_device_ring_takes_each_row_once_when_all_threads_append(ring_capacity):
    outputs, slots = _verify_wrong_positions(ring_capacity)
    assert outputs["violation_write_index"][0] == NUM_SLOTS - 1
    assert outputs["slot_run_counter"][0] == NUM_SLOTS
    assert outputs["kernel_run_counter"][0] == 1
    assert (outputs["reason_bits"][1:] == FailReason.VERIFY_POSITION_MISMATCH).all()
    assert len(np.unique(slots)) == len(slots)
    assert (slots > 0).all()


def _write(implementation: Implementation) -> dict[str, np.ndarray]:
    random = np.random.default_rng(29)
    lengths = random.integers(0, 60, NUM_REQUESTS)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    num_tokens = int(offsets[-1])
    outputs = {
        "canary_records": np.zeros((num_tokens + 1, RECORD_WORDS), dtype=np.uint64),
        "violation_ring": np.zeros((num_tokens, VIOLATION_FIELDS), dtype=np.uint64),
        **_counters(),
    }
    implementation.run(
        "write",
        write_offsets=offsets,
        write_seed_slot_indices=np.full(NUM_REQUESTS, NO_SEED),
        write_num_valid_reqs=np.array([NUM_REQUESTS], dtype=np.int32),
        input_ids=random.integers(0, 1 << 17, num_tokens).view(np.uint64),
        positions=np.arange(num_tokens).view(np.uint64),
        out_cache_loc=1 + random.permutation(num_tokens),
        expected_input_tokens=np.zeros(0, dtype=np.uint64),
        expected_input_positions=np.zeros(0, dtype=np.uint64),
        real_kv_hashes=random.integers(0, 1 << 63, num_tokens).view(np.uint64),
        enable_chain_position_assert=np.ones(1, dtype=np.int32),
        launch_tag=int(LaunchTag.TAIL_K_FULL),
        **outputs,
    )
    return outputs


def test_device_stamps_thousands_of_requests_as_the_cpu_does():
    on_device, on_cpu = _write(CUDA), _write(CPU)
    for name, expected in on_cpu.items():
        np.testing.assert_array_equal(on_device[name], expected, err_msg=name)
    assert on_device["slot_run_counter"][0] == len(on_device["canary_records"]) - 1


def _plan(implementation: Implementation, verify_capacity: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(31)
    max_len = 300
    shape = (NUM_REQUESTS + 1, max_len)
    outputs = {
        "verify_slot_indices": np.zeros(verify_capacity, dtype=np.int64),
        "verify_expected_tokens": np.zeros(verify_capacity, dtype=np.uint64),
        "verify_expected_positions": np.zeros(verify_capacity, dtype=np.uint64),
        "verify_prev_slot_indices": np.zeros(verify_capacity, dtype=np.int64),
        "verify_num_valid": np.zeros(1, dtype=np.int32),
        "enable": np.zeros(1, dtype=np.int32),
        "write_offsets": np.full(NUM_REQUESTS + 9, 5, dtype=np.int64),
        "write_seed_slot_indices": np.full(NUM_REQUESTS + 8, 5, dtype=np.int64),
        "write_num_valid_reqs": np.zeros(1, dtype=np.int32),
    }
    implementation.run(
        "plan",
        req_pool_indices=random.permutation(NUM_REQUESTS + 1)[:NUM_REQUESTS],
        prefix_lens=random.integers(0, max_len, NUM_REQUESTS),
        extend_seq_lens=random.integers(0, 3, NUM_REQUESTS),
        req_to_token=random.integers(0, 1 << 20, shape, dtype=np.int32),
        full_to_swa_index_mapping=random.integers(0, 1 << 20, 1 << 20),
        req_to_verify_expected_tokens=random.integers(0, 1 << 17, shape, dtype=np.int32),
        req_to_verify_expected_tokens_valid_lens=random.integers(0, max_len, NUM_REQUESTS),
        swa_window_size=128,
        kv_token_id_vs_position_offset=1,
        **outputs,
    )
    return outputs


@pytest.mark.parametrize("verify_capacity", [NUM_REQUESTS, 128 * NUM_REQUESTS])
def test_device_plans_a_large_batch_as_the_cpu_does(verify_capacity):
    on_device, on_cpu = _plan(CUDA, verify_capacity), _plan(CPU, verify_capacity)
    for name, expected in on_cpu.items():
        np.testing.assert_array_equal(on_device[name], expected, err_msg=name)


def test_launches_of_a_side_stream_follow_one_another_without_the_host():
    fold, hash_module = CUDA.module("fold"), CUDA.module("hash")
    stream = cuda.stream()
    records = np.zeros((NUM_SLOTS, RECORD_WORDS), dtype=np.uint64)
    records[:, RECORD_POSITION] = np.arange(NUM_SLOTS)
    slots = np.arange(NO_PREDECESSOR, NUM_SLOTS - 1)
    with on_stream(stream):
        device_records = cuda.to_device(records, stream=stream)
        device_slots = cuda.to_device(slots, stream=stream)
        slot_hashes = cuda.device_array(NUM_SLOTS, dtype=np.uint64, stream=stream)
        combined = cuda.to_device(np.zeros(NUM_SLOTS, dtype=np.uint64), stream=stream)
        hash_module.launch_hash(device_records, device_slots, slot_hashes)
        fold.launch_combine(slot_hashes, combined)
        fold.launch_combine(slot_hashes, combined)
        on_device = combined.copy_to_host(stream=stream)
    stream.synchronize()
    hashes, expected = np.zeros(NUM_SLOTS, dtype=np.uint64), np.zeros(NUM_SLOTS, dtype=np.uint64)
    CPU.run("hash", canary_records=records, slot_indices=slots, slot_hashes=hashes)
    for _ in range(2):
        CPU.run("fold", launcher="launch_combine", source_hashes=hashes, real_kv_hashes=expected)
    np.testing.assert_array_equal(on_device, expected)
