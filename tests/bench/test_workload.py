from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.workload import (
    MAX_PLANTED,
    MIN_SAMPLE,
    RUN_ENTRIES,
    fold_outputs,
    fresh_ring,
    planted,
    ring_rows,
    sampled_runs,
)


@pytest.mark.parametrize("num_entries", [1024, MIN_SAMPLE, 100_000])
def test_a_bounded_input_is_sampled_whole(num_entries: int) -> None:
    sampled = sampled_runs(num_entries, steps_per_entry=10, seed=0)
    np.testing.assert_array_equal(sampled, np.arange(num_entries))


@pytest.mark.parametrize("steps_per_entry", [16, 200, 1 << 20])
def test_a_larger_one_is_sampled_in_runs_at_random_places(steps_per_entry: int) -> None:
    sampled = sampled_runs(1 << 20, steps_per_entry=steps_per_entry, seed=0)
    assert MIN_SAMPLE <= len(sampled) < 1 << 20
    assert (np.diff(sampled) > 0).all()
    runs = sampled.reshape(-1, RUN_ENTRIES)
    assert (np.diff(runs, axis=1) == 1).all()
    assert runs[0, 0] < 1 << 17
    assert runs[-1, -1] > 7 << 17
    other = sampled_runs(1 << 20, steps_per_entry=steps_per_entry, seed=1)
    assert (sampled != other).any()


def test_damage_is_spread_over_the_sample_which_holds_the_entry_after_each() -> None:
    for num_entries in (1024, 1 << 20):
        sampled = sampled_runs(num_entries, steps_per_entry=200, seed=0)
        entries = planted(sampled)
        assert 7 < len(entries) <= MAX_PLANTED
        assert np.isin([entries, entries + 1], sampled).all()
        assert entries[-1] - entries[0] > num_entries // 2


def test_rows_of_a_ring_have_one_order() -> None:
    outputs = fresh_ring()
    outputs["violation_ring"][:3, 1] = 9, 4, 6
    outputs["violation_write_index"][0] = 3
    assert ring_rows(outputs)[:, 1].tolist() == [4, 6, 9]
    outputs["violation_write_index"][0] = 2
    assert ring_rows(outputs)[:, 1].tolist() == [4, 9]


def test_hashes_have_room_only_where_bytes_are_read() -> None:
    assert len(fold_outputs(5, 0)["real_kv_hashes"]) == 0
    assert len(fold_outputs(5, 16)["real_kv_hashes"]) == 5
