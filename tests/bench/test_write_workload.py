from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.options import RealKv
from kvaudit.bench.workload import MIN_SAMPLE, ring_rows
from kvaudit.bench.write_workload import WriteWorkload
from kvaudit.constants import (
    CHAIN_ANCHOR,
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
    VIOLATION_REASON_BITS,
    FailReason,
)
from tests.helpers.bench_launches import launched, sample_agrees
from tests.helpers.bench_pools import pool

MODES = [(RealKv.NONE, 0), (RealKv.PARTIAL, 16), (RealKv.ALL, 64)]


def test_half_of_the_chains_are_heads_and_half_go_on_from_page_0() -> None:
    built = pool()
    records = launched(WriteWorkload.of(built, real_kv=RealKv.NONE, read_bytes=0))["canary_records"]
    is_head = records[built.slots[built.offsets[:-1]], RECORD_PREV_HASH] == CHAIN_ANCHOR
    assert is_head.tolist() == [True, False] * 4


def test_the_damage_has_rows_of_positions_and_of_slots_and_slots_that_are_skipped() -> None:
    workload = WriteWorkload.of(pool(), real_kv=RealKv.NONE, read_bytes=0)
    outputs = launched(workload)
    bits = np.bitwise_or.reduce(ring_rows(outputs)[:, VIOLATION_REASON_BITS])
    assert bits == FailReason.WRITE_POSITION_MISMATCH | FailReason.SLOT_OUT_OF_RANGE
    assert (workload.inputs()["slots"] < 0).any()
    assert outputs["slot_run_counter"] < workload.num_entries


def test_without_damage_every_slot_is_stamped_and_no_row_is_written() -> None:
    built = pool()
    outputs = launched(WriteWorkload.undamaged(built, real_kv=RealKv.ALL, read_bytes=64))
    records = outputs["canary_records"][built.slots]
    assert not len(ring_rows(outputs))
    np.testing.assert_array_equal(records[:, RECORD_TOKEN], built.tokens)
    np.testing.assert_array_equal(records[:, RECORD_POSITION], built.positions)
    assert records[:, RECORD_REAL_KV_HASH].all()


@pytest.mark.parametrize(("real_kv", "read_bytes"), MODES)
def test_the_reference_stamps_a_part_of_the_same_input_and_has_all_rows(
    real_kv: RealKv, read_bytes: int
) -> None:
    workload = WriteWorkload.of(pool(), real_kv=real_kv, read_bytes=read_bytes)
    assert workload.sample().workload.num_entries == workload.num_entries
    assert sample_agrees(workload)


@pytest.mark.parametrize("request_tokens", [64, 4096, 8192])
def test_of_a_large_input_some_requests_are_stamped_from_their_first_entry(
    request_tokens: int,
) -> None:
    built = pool(1 << 13, bytes_per_token=8192, request_tokens=request_tokens)
    workload = WriteWorkload.of(built, real_kv=RealKv.ALL, read_bytes=8192)
    part = workload.sample().workload
    assert min(MIN_SAMPLE, request_tokens) <= part.num_entries < workload.num_entries
    assert sample_agrees(workload)
