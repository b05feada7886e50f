"""Recorded plans that the tables do not give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvaudit.core.divergence import Divergence, DivergenceKind
from kvaudit.core.plan import PlannedLaunch, VerifyPlan
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.runner.replay.plan_check import plan_divergences
from kvaudit.runner.replay.run import _Replay
from tests.runner.replay.test_step_plans import step_after

STEP = 20


@pytest.fixture
def at_step(short_run: Path) -> tuple[_Replay, RecordedStep]:
    return step_after(short_run, STEP)


def divergences(at_step: tuple[_Replay, RecordedStep], **changes: object) -> list[Divergence]:
    replay, recorded = at_step
    changed = replace(recorded, **changes)
    plans = replay._planner.planned(changed)
    return plan_divergences(changed, plans, pool=replay._pool)


def derived_launch(at_step: tuple[_Replay, RecordedStep], **changes: object) -> PlannedLaunch:
    """What an engine whose tables are the replay's would have recorded."""
    replay, recorded = at_step
    plans = replay._planner.planned(recorded)
    columns = {
        name: getattr(plans.derived, name)[: plans.num_entries].numpy().copy()
        for name in (
            "verify_slot_indices",
            "verify_expected_tokens",
            "verify_expected_positions",
            "verify_prev_slot_indices",
        )
    }
    plan = VerifyPlan(**columns, num_valid=plans.num_entries)
    return PlannedLaunch(
        step=recorded.step,
        tags=recorded.tags,
        plan=replace(plan, **changes),
        check_verify_expected_token=False,
    )


def test_the_plan_that_the_tables_give_agrees(at_step: tuple[_Replay, RecordedStep]) -> None:
    assert divergences(at_step) == []
    assert divergences(at_step, verify=derived_launch(at_step)) == []


@pytest.mark.parametrize(
    "column",
    ["verify_slot_indices", "verify_expected_positions", "verify_prev_slot_indices"],
)
def test_an_entry_that_they_do_not_give_is_named_with_its_request(
    at_step: tuple[_Replay, RecordedStep], column: str
) -> None:
    launch = derived_launch(at_step)
    values = getattr(launch.plan, column).copy()
    values[-1] += 1
    (found,) = divergences(at_step, verify=derived_launch(at_step, **{column: values}))
    replay, recorded = at_step
    assert (found.kind, found.column) == (DivergenceKind.PLAN, column)
    assert (found.first_step, found.last_step) == (STEP + 1, STEP + 1)
    assert found.recorded == found.replayed + 1
    row = int(recorded.batch.request_index[recorded.batch.prefix_lens > 0][-1])
    assert found.request_ids == (replay._pool.tables.name_of(row),)
    assert found.request_ids[0]


def test_a_plan_with_fewer_entries_is_counted(at_step: tuple[_Replay, RecordedStep]) -> None:
    num = len(derived_launch(at_step).plan)
    (found,) = divergences(at_step, verify=derived_launch(at_step, num_valid=num - 2))
    assert (found.column, found.recorded, found.replayed) == ("verify_num_valid", num - 2, num)


def test_nothing_is_said_of_a_disabled_plan_or_of_a_row_without_a_batch(
    at_step: tuple[_Replay, RecordedStep],
) -> None:
    disabled = derived_launch(at_step, num_valid=1, enable=False)
    assert divergences(at_step, verify=disabled) == []
    assert divergences(at_step, verify=derived_launch(at_step, num_valid=1), batch=None) == []


def test_offsets_that_are_not_the_batchs_are_named(at_step: tuple[_Replay, RecordedStep]) -> None:
    write = at_step[1].write
    offsets = np.concatenate([[0, 0], write.plan.write_offsets[2:]])
    plan = replace(write.plan, write_offsets=offsets)
    (found,) = divergences(at_step, write=replace(write, plan=plan))
    assert (found.column, found.recorded) == ("write_offsets", 0)
    assert found.slot is None


def test_a_position_without_a_slot_is_no_seed_however_it_is_written(
    at_step: tuple[_Replay, RecordedStep],
) -> None:
    """Engines write 0 or -1."""
    replay, recorded = at_step
    row, length = int(recorded.batch.request_index[0]), int(recorded.batch.prefix_lens[0])
    replay._pool.tables.host[row, length - 1] = 0
    for none in (0, -1):
        seeds = recorded.write.plan.write_seed_slot_indices.copy()
        seeds[0] = none
        plan = replace(recorded.write.plan, write_seed_slot_indices=seeds)
        assert divergences(at_step, write=replace(recorded.write, plan=plan)) == []
