from __future__ import annotations

import numpy as np

from kvaudit.bench.options import RealKv
from kvaudit.bench.storm_workload import StormWorkload
from kvaudit.bench.workload import RING_CAPACITY
from kvaudit.constants import FailReason
from tests.helpers.bench_launches import launched, sample_agrees
from tests.helpers.bench_pools import NUM_ENTRIES, pool


def storm(num_entries: int = NUM_ENTRIES) -> StormWorkload:
    return StormWorkload.of(pool(num_entries), real_kv=RealKv.NONE, read_bytes=0)


def test_every_entry_of_a_slot_in_the_pool_fails_and_the_ring_overflows() -> None:
    workload = storm()
    outputs = launched(workload)
    has_failed = outputs["reason_bits"] != 0
    num_padding = int((workload.inputs()["slots"] == 0).sum())
    assert has_failed.sum() == NUM_ENTRIES - num_padding
    wrong_positions = outputs["reason_bits"] & FailReason.VERIFY_POSITION_MISMATCH != 0
    assert wrong_positions.sum() >= 0.9 * NUM_ENTRIES
    assert outputs["violation_write_index"][0] == has_failed.sum() > RING_CAPACITY


def test_its_rows_are_free_and_their_number_is_not() -> None:
    workload = storm()
    outputs = launched(workload)
    others = outputs | {"violation_ring": outputs["violation_ring"][::-1].copy()}
    observed = workload.observed(outputs)
    assert all(
        np.array_equal(array, observed[name]) for name, array in workload.observed(others).items()
    )
    assert "violation_write_index" in observed


def test_the_reference_judges_a_part_of_it() -> None:
    assert sample_agrees(storm())
    large = storm(1 << 18)
    assert large.sample().workload.num_entries < 1 << 18
    assert sample_agrees(large)
