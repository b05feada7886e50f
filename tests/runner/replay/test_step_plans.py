from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from kvaudit.constants import LaunchTag
from kvaudit.core.plan import PlannedWrite, WritePlan
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.formats.trace_reader import open_trace
from kvaudit.runner.replay.run import _Replay
from tests.runner.replay.recorded_plans import replay_until, verify_launch


def int64(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def step_after(folder: Path, step: int) -> tuple[_Replay, RecordedStep]:
    """A replay after a step, and the row of the next one with its changes applied."""
    replay = replay_until(folder, step)
    steps = open_trace(folder / "full.plan.arrow").steps()
    recorded = next(each for each in steps if each.step == step + 1 and each.batch is not None)
    replay._pool.change(recorded)
    return replay, recorded


def test_a_row_without_launches_has_no_plan(short_run: Path) -> None:
    replay = replay_until(short_run, 3)
    assert replay._planner.planned(RecordedStep(step=4)) is None


def test_a_derived_plan_is_what_the_tables_give(short_run: Path) -> None:
    replay, recorded = step_after(short_run, 20)
    plans = replay._planner.planned(recorded)
    num = int(recorded.batch.prefix_lens.sum())
    assert plans.num_entries == num == int(plans.derived.verify_num_valid)
    host = replay._pool.tables.host
    wanted = [
        host[row, position]
        for row, length in zip(
            recorded.batch.request_index.tolist(), recorded.batch.prefix_lens.tolist(), strict=True
        )
        for position in range(length)
    ]
    assert plans.verify_plan.verify_slot_indices[:num].tolist() == wanted
    assert plans.planned.write is not None
    assert plans.tags == (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL)
    assert not plans.is_sweep


def test_a_recorded_plan_is_taken_as_it_is(short_run: Path) -> None:
    replay, recorded = step_after(short_run, 20)
    verify = verify_launch(recorded, slots=[4, 5, 6])
    plans = replay._planner.planned(replace(recorded, verify=verify))
    assert plans.num_entries == 3
    assert plans.verify_plan.verify_slot_indices.tolist() == [4, 5, 6]
    assert plans.verify_plan.verify_prev_slot_indices.tolist() == [-1, 4, 5]
    # Tokens are judged only where the launch judged them.
    unjudged = replace(verify, plan=replace(verify.plan, verify_expected_tokens=int64(1, 2, 3)))
    plans = replay._planner.planned(replace(recorded, verify=unjudged))
    assert plans.verify_plan.verify_expected_tokens.tolist() == [-1, -1, -1]
    judged = replace(unjudged, check_verify_expected_token=True)
    plans = replay._planner.planned(replace(recorded, verify=judged))
    assert plans.verify_plan.verify_expected_tokens.tolist() == [1, 2, 3]


def test_a_recorded_sweep_is_known_by_its_tags(short_run: Path) -> None:
    replay, recorded = step_after(short_run, 20)
    tags = (LaunchTag.SWEEP_K_FULL,)
    sweep = RecordedStep(step=21, tags=tags, verify=verify_launch(recorded, slots=[4, 5]))
    assert replay._planner.planned(sweep).is_sweep
    assert not replay._planner.planned(replace(sweep, tags=())).is_sweep
    assert not replay._planner.planned(replace(sweep, tags=None)).is_sweep


def test_a_write_plan_is_clamped_and_may_have_more_requests_than_any_batch(short_run: Path) -> None:
    replay = replay_until(short_run, 3)
    plan = WritePlan(
        write_offsets=int64(0, 1, 1, 2, -7, 99, 2),
        write_seed_slot_indices=int64(-1, -1, 5, -1, 6, -1),
        num_valid_reqs=99,
    )
    write = PlannedWrite(
        plan=plan,
        input_ids=int64(7, 8),
        positions=int64(0, 1),
        out_cache_loc=int64(40, 41),
        expected_input_tokens=int64(7, 8),
        expected_input_positions=int64(0, 1),
        enable_chain_position_assert=True,
    )
    plans = replay._planner.planned(RecordedStep(step=4, write=write))
    entries = plans.planned.write
    assert entries.plan.write_num_valid_reqs.tolist() == [6]
    assert entries.plan.write_offsets.tolist() == [0, 1, 1, 2, 0, 2, 2]
    assert entries.plan.write_seed_slot_indices.tolist() == [-1, -1, 5, -1, 6, -1]
    assert entries.expected_input_tokens[:2].tolist() == [7, 8]
    assert replay._pool.canary.state.enable_chain_position_assert.tolist() == [1]
    assert plans.verify_plan is None
    assert plans.derived is None
