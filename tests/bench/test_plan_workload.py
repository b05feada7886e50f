from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.plan_workload import PlanWorkload
from kvaudit.bench.workload import UNWRITTEN
from tests.helpers.bench_launches import launched, sample_agrees
from tests.helpers.bench_pools import pool


@pytest.mark.parametrize("num_entries", [1024, 5000, 1 << 16])
def test_a_plan_has_an_entry_for_each_of_the_pools(num_entries: int) -> None:
    built = pool(num_entries)
    workload = PlanWorkload.of(built)
    outputs = launched(workload)
    assert workload.num_entries == num_entries
    assert outputs["verify_num_valid"] == num_entries
    assert outputs["enable"] == 1
    np.testing.assert_array_equal(outputs["verify_slot_indices"], built.slots)
    np.testing.assert_array_equal(outputs["verify_expected_tokens"], built.tokens)
    assert UNWRITTEN not in outputs["write_seed_slot_indices"]


def test_every_row_has_a_prefix() -> None:
    lens = PlanWorkload.of(pool(1 << 16)).inputs()["prefix_lens"]
    assert lens.min() > 0
    assert lens.max() < 8192


@pytest.mark.parametrize("num_entries", [1024, 1 << 16, 1 << 19])
def test_the_reference_plans_neighbouring_rows_of_the_same_batch(num_entries: int) -> None:
    workload = PlanWorkload.of(pool(num_entries))
    part = workload.sample().workload
    assert 1024 <= part.num_entries <= workload.num_entries
    assert sample_agrees(workload)
