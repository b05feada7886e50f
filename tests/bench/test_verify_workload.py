from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.options import RealKv
from kvaudit.bench.verify_workload import VerifyWorkload
from kvaudit.bench.workload import ring_rows
from kvaudit.constants import VIOLATION_REASON_BITS, FailReason
from tests.helpers.bench_launches import launched, sample_agrees
from tests.helpers.bench_pools import pool

MODES = [(RealKv.NONE, 0), (RealKv.PARTIAL, 16), (RealKv.ALL, 64)]


@pytest.mark.parametrize(("real_kv", "read_bytes"), MODES)
def test_the_pool_is_stamped_as_the_mode_says_but_for_the_damage(
    real_kv: RealKv, read_bytes: int
) -> None:
    outputs = launched(VerifyWorkload.of(pool(), real_kv=real_kv, read_bytes=read_bytes))
    failed = np.flatnonzero(outputs["reason_bits"])
    assert 0 < len(failed) < 150
    assert len(ring_rows(outputs)) == len(failed)
    assert outputs["slot_run_counter"] == 2048
    assert outputs["kernel_run_counter"] == 1


def test_the_damage_has_every_kind_of_row() -> None:
    outputs = launched(VerifyWorkload.of(pool(), real_kv=RealKv.ALL, read_bytes=64))
    bits = np.bitwise_or.reduce(ring_rows(outputs)[:, VIOLATION_REASON_BITS])
    assert FailReason(int(bits)) == (
        FailReason.VERIFY_CHAIN_HASH_MISMATCH
        | FailReason.VERIFY_POSITION_MISMATCH
        | FailReason.VERIFY_REAL_KV_HASH_MISMATCH
        | FailReason.VERIFY_TOKEN_MISMATCH
        | FailReason.SLOT_OUT_OF_RANGE
        | FailReason.PREV_SLOT_OUT_OF_RANGE
    )


@pytest.mark.parametrize(("real_kv", "read_bytes"), MODES)
def test_the_reference_judges_a_part_of_the_same_input_and_has_all_rows(
    real_kv: RealKv, read_bytes: int
) -> None:
    assert sample_agrees(VerifyWorkload.of(pool(), real_kv=real_kv, read_bytes=read_bytes))


def test_of_a_large_input_the_sample_has_all_rows_too() -> None:
    workload = VerifyWorkload.of(
        pool(1 << 13, bytes_per_token=8192), real_kv=RealKv.ALL, read_bytes=8192
    )
    assert workload.sample().workload.num_entries < workload.num_entries
    assert sample_agrees(workload)


def test_an_entry_reads_its_plan_its_record_and_its_bytes() -> None:
    sizes = [
        VerifyWorkload.of(pool(), real_kv=real_kv, read_bytes=read_bytes).bytes_per_entry
        for real_kv, read_bytes in MODES
    ]
    assert sizes == [64 + 4, 64 + 4 + 16, 64 + 4 + 64]
