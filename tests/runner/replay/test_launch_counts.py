from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.runner.replay.launch_counts import LaunchCounts
from tests.runner.replay.recorded_plans import replay_until, verify_launch
from tests.runner.replay.test_step_plans import step_after

K, V = LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL


def counted(folder: Path, tags: tuple[LaunchTag, ...] | None, *slots: int) -> LaunchCounts:
    """What one row counts that verifies these slots."""
    replay, recorded = step_after(folder, 20)
    row = replace(recorded, tags=tags, verify=verify_launch(recorded, slots=slots))
    counts = LaunchCounts(replay._pool)
    counts.step(row, replay._planner.planned(row))
    return counts


def state(**counters: int) -> CanaryState:
    runs = {LaunchTag[name]: count for name, count in counters.items()}
    return CanaryState(
        ring=np.empty((0, 8), np.int64),
        violation_write_index=0,
        ring_capacity=0,
        kernel_run_counters=runs,
        slot_run_counters={},
        active_tags=(K, V),
        sweep_passes={},
    )


@pytest.mark.parametrize("tags", [None, (K, V)])
def test_entries_count_for_each_tag_and_padding_for_none(short_run: Path, tags) -> None:
    counts = counted(short_run, tags, 4, 0, 6)
    assert (counts.planned, counts.padding, counts.verified, counts.unstamped) == (6, 2, 4, 0)
    assert counts.verified_by(K) == 2
    assert np.flatnonzero(counts.checked_slots).tolist() == [0, 4, 6]


def test_what_a_dropped_launch_was_to_check_is_planned_and_not_verified(short_run: Path) -> None:
    counts = counted(short_run, (V,), 4, 5, 6)
    assert (counts.planned, counts.verified, counts.unstamped) == (6, 3, 0)
    none = counted(short_run, (), 4, 5, 6)
    assert none.verified == 0
    assert not none.checked_slots.any()
    assert np.flatnonzero(none.planned_slots).tolist() == [4, 5, 6]


def test_a_v_half_that_never_runs_is_unstamped(short_run: Path) -> None:
    counts = counted(short_run, (K,), 4, 5, 6)
    assert (counts.planned, counts.verified, counts.unstamped) == (6, 3, 3)


@pytest.mark.parametrize("capacity", [0, 5])
def test_a_disabled_plan_is_kept_without_its_lists(short_run: Path, capacity: int) -> None:
    replay, recorded = step_after(short_run, 20)
    verify = verify_launch(recorded, slots=[4] * capacity, enable=False)
    row = replace(recorded, verify=verify)
    counts = LaunchCounts(replay._pool)
    counts.step(row, replay._planner.planned(row))
    # A plan without room lacks something, too.
    assert (counts.planned, counts.verified, counts.padding) == (2 * max(1, capacity), 0, 0)
    [kept] = counts.disabled
    assert kept.plan.capacity == capacity
    assert not any(kept.plan.verify_slot_indices.strides) or not capacity
    assert not counts.planned_slots.any()


def test_a_counter_below_the_writes_of_the_trace_lacks_launches(short_run: Path) -> None:
    counts = replay_until(short_run, 30)._counts
    [lacking] = counts.uncounted(state(TAIL_K_FULL=29, TAIL_V_FULL=30))
    assert (lacking.tag, lacking.counted, lacking.told) == (K, 29, 30)
    # It counts checks too, and what ran before.
    assert not counts.uncounted(state(TAIL_K_FULL=60, TAIL_V_FULL=1000))
    # A V half that never ran is none that stood still, and a tag may go uncounted.
    assert not counts.uncounted(state(TAIL_K_FULL=30, TAIL_V_FULL=0))
    assert not counts.uncounted(state())
