"""What the manager tells of a run besides violations: statistics, stalls, and steps that are no steps."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kvaudit.constants import LaunchTag
from kvaudit.core.launch_tag import KvHalf
from kvaudit.errors import CanaryStalledError
from tests.helpers.live_engine import LiveEngine
from tests.runner.live.test_manager import LOG, QUIET, cached_by


def test_statistics_have_the_figures_of_steps_100_200_and_300(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = LiveEngine(replace(LOG, sweep_interval=50), cached_prefixes=cached_by(lambda: engine))
    figures = {}
    with caplog.at_level(logging.INFO, logger="kvaudit"), engine.manager:
        for step in range(1, 301):
            engine.step()
            figures[step] = (int(engine.state.slot_run_counters.sum()), engine.manager.sweep_passes)
    assert [record.getMessage() for record in caplog.records] == [
        f"[canary] step={step} protected_tokens={figures[step][0]} "
        f"sweep_passes={figures[step][1]} violations=0 launch_tags_active=3/3"
        for step in (100, 200, 300)
    ]
    assert figures[300][1] == 6


def test_a_launch_that_is_dropped_from_step_150_on_is_named_at_step_300() -> None:
    engine = LiveEngine(replace(LOG, stats_print_every_n_steps=0))

    def serve() -> None:
        for step in range(1, 400):
            if engine.length == engine.max_len:
                engine.length = 0
            planned = engine.pool.planned(engine.batch(), config=LOG)
            tags = None if step < 150 else {LaunchTag.HEAD_K_FULL}
            engine.manager.begin_planned_step([replace(planned, tags=tags)])
            engine.manager.end_step()

    with pytest.raises(CanaryStalledError) as caught:
        serve()
    assert (caught.value.tags, caught.value.step) == (("TAIL_K_FULL",), 300)


def test_steps_in_which_nothing_is_planned_are_no_stall() -> None:
    engine = LiveEngine(LOG)
    with engine.manager:
        for _ in range(250):
            engine.manager.begin_planned_step([])
            engine.manager.end_step()


def test_steps_that_are_only_begun_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    engine = LiveEngine(LOG)
    with engine.manager as canary:
        for _ in range(3):
            canary.begin_step(engine.batch())
    assert "3 steps were begun and 0 ended" in caplog.text


def test_steps_that_are_only_ended_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    engine = LiveEngine(LOG)
    with engine.manager as canary:
        for _ in range(3):
            canary.end_step()
    assert "0 steps were begun and 3 ended" in caplog.text


@pytest.mark.parametrize("num_steps", [0, 2])
def test_a_run_with_whole_steps_or_none_is_not_warned_of(
    caplog: pytest.LogCaptureFixture, num_steps: int
) -> None:
    engine = LiveEngine(LOG)
    with engine.manager:
        engine.run(num_steps)
    assert "were begun" not in caplog.text


def test_v_buffers_that_are_never_stamped_are_no_stall() -> None:
    engine = LiveEngine(LOG, halves=(KvHalf.K, KvHalf.V))
    k_tags = {LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL}
    with engine.manager:
        for _ in range(12):
            planned = engine.pool.planned(engine.batch(), config=LOG)
            engine.manager.begin_planned_step([replace(planned, tags=k_tags)])
            engine.manager.end_step()


def test_the_state_of_now_is_read_with_the_rows_that_were_stored() -> None:
    engine = LiveEngine(
        replace(QUIET, ring_capacity=2, sweep_interval=2),
        halves=(KvHalf.K, KvHalf.V),
        cached_prefixes=cached_by(lambda: engine),
    )
    engine.run(4)
    slot = engine.overwrite(1, 1)
    engine.run(3)
    state = engine.manager.read_state()
    assert state.active_tags == tuple(LaunchTag)[:6]
    assert state.kernel_run_counters[LaunchTag.TAIL_V_FULL] == 14
    assert state.kernel_run_counters[LaunchTag.SWEEP_K_FULL] == 3
    assert state.sweep_passes == {LaunchTag.SWEEP_K_FULL: 3, LaunchTag.SWEEP_V_FULL: 3}
    assert state.is_overflown
    assert state.ring.shape == (2, 8)
    assert slot in state.ring[:, 1]
    engine.state.violation_ring.zero_()
    assert slot in state.ring[:, 1]


def test_a_state_without_a_violation_has_no_row() -> None:
    engine = LiveEngine(QUIET)
    engine.run(2)
    state = engine.manager.read_state()
    assert state.ring.shape == (0, 8)
    assert state.active_tags == (LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL)
