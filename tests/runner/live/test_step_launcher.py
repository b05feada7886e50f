"""Which launches a step runs, and which it had to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit.constants import LaunchTag
from kvaudit.core.launch_tag import KvHalf, PoolKind
from kvaudit.errors import ConfigError
from kvaudit.runner.live.config import CanaryConfig
from kvaudit.runner.live.step_inputs import PlannedStep
from kvaudit.runner.live.step_launcher import StepLauncher
from tests.helpers.live_engine import LiveEngine

FORWARD_K = {LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL}


def _launcher(engine: LiveEngine) -> StepLauncher:
    return StepLauncher(list(engine.pools.values()), state=engine.state)


def _planned(engine: LiveEngine, kind: PoolKind = PoolKind.FULL) -> PlannedStep:
    return engine.pools[kind].planned(engine.batch(), config=CanaryConfig())


def test_head_comes_before_the_forward_and_tail_after_it() -> None:
    engine = LiveEngine(CanaryConfig())
    launcher = _launcher(engine)
    launcher.launch_head([_planned(engine)])
    runs = engine.state.kernel_run_counters
    assert (runs[LaunchTag.HEAD_K_FULL], runs[LaunchTag.TAIL_K_FULL]) == (2, 0)
    assert launcher.launch_tail() == FORWARD_K
    assert (runs[LaunchTag.HEAD_K_FULL], runs[LaunchTag.TAIL_K_FULL]) == (2, 2)


def test_a_launch_that_is_left_out_was_due_all_the_same() -> None:
    engine = LiveEngine(CanaryConfig())
    launcher = _launcher(engine)
    launcher.launch_head([replace(_planned(engine), tags={LaunchTag.HEAD_K_FULL})])
    assert launcher.launch_tail() == FORWARD_K
    assert engine.state.kernel_run_counters[LaunchTag.TAIL_K_FULL] == 0


def test_launches_of_one_pool_may_have_plans_of_their_own() -> None:
    engine = LiveEngine(CanaryConfig(), halves=(KvHalf.K, KvHalf.V))
    launcher = _launcher(engine)
    planned = _planned(engine)
    k_tags, v_tags = FORWARD_K, {LaunchTag.HEAD_V_FULL, LaunchTag.TAIL_V_FULL}
    launcher.launch_head([replace(planned, tags=k_tags), replace(planned, tags=v_tags, write=None)])
    assert launcher.launch_tail() == k_tags | v_tags
    assert engine.state.kernel_run_counters[:4].tolist() == [2, 1, 2, 1]


def test_a_pool_without_a_plan_has_nothing_due_and_no_step_is_launched_twice() -> None:
    engine = LiveEngine(CanaryConfig(), window=2)
    launcher = _launcher(engine)
    launcher.launch_head([_planned(engine, PoolKind.SWA)])
    assert launcher.launch_tail() == {LaunchTag.HEAD_K_SWA, LaunchTag.TAIL_K_SWA}
    assert launcher.launch_tail() == set()
    assert engine.state.kernel_run_counters[LaunchTag.TAIL_K_SWA] == 2


def test_plans_are_counted_and_those_that_fitted_on_the_device() -> None:
    engine = LiveEngine(CanaryConfig(), verify_capacity=2)
    launcher = _launcher(engine)
    for _ in range(3):
        launcher.launch_head([_planned(engine)])
        launcher.launch_tail()
    assert launcher.num_plans == 3
    assert engine.state.enabled_plan_counter(PoolKind.FULL).tolist() == [1]


def test_two_pools_of_one_kind_are_refused() -> None:
    engine = LiveEngine(CanaryConfig())
    with pytest.raises(ConfigError):
        StepLauncher([engine.pool, engine.pool], state=engine.state)


def test_a_pool_that_reports_to_another_state_is_refused() -> None:
    engine, other = LiveEngine(CanaryConfig()), LiveEngine(CanaryConfig())
    with pytest.raises(ConfigError, match="the FULL pool was allocated with another state"):
        StepLauncher([engine.pool], state=other.state)
