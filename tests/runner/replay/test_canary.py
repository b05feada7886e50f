from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kvaudit import api
from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.recorded_run import RecordedRun
from kvaudit.errors import LimitExceeded
from kvaudit.runner.live import CanaryConfig, CanaryMode
from kvaudit.runner.replay.canary import ReplayCanary, replay_config
from kvaudit.runner.replay.finished import FinishedSequences
from kvaudit.runner.replay.place import ReplayPlace
from tests.runner.replay.recorded_plans import replay_until

HOST = ReplayPlace(device=torch.device("cpu"))


def canary_of(run: RecordedRun) -> ReplayCanary:
    return ReplayCanary(
        run,
        config=replay_config(CanaryConfig()),
        place=HOST,
        finished=FinishedSequences(run.start.snapshot.num_slots),
        shift=0,
    )


def with_tags(run: RecordedRun, *tags: LaunchTag) -> RecordedRun:
    assert isinstance(run.state, CanaryState)
    return replace(run, state=replace(run.state, active_tags=tags))


def test_a_configuration_keeps_what_does_not_need_the_kv() -> None:
    config = replay_config(
        CanaryConfig(real_kv_hash_mode=RealKvHashMode.ALL, sweep_interval=7, ring_capacity=5)
    )
    assert config.mode is CanaryMode.LOG
    assert config.real_kv_hash_mode is RealKvHashMode.NONE
    assert (config.sweep_interval, config.ring_capacity) == (7, 5)


def test_the_launches_are_those_of_the_engines_state(short_run: Path) -> None:
    run = api.open_run(short_run)
    both = [LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL]
    assert canary_of(run).forward_tags == both
    heads = with_tags(run, LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL, LaunchTag.SWEEP_K_FULL)
    canary = canary_of(heads)
    assert canary.forward_tags == [LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL]
    assert canary.tags == [*canary.forward_tags, LaunchTag.SWEEP_K_FULL]
    assert sorted(canary.pool.buffers) == ["k.head", "k.tail"]


def test_without_a_state_they_are_those_of_the_first_snapshot(short_run: Path) -> None:
    run = replace(api.open_run(short_run), state=None)
    assert canary_of(run).forward_tags == [LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL]
    bare = replace(run.start.snapshot, canary={}, stamped_columns=())
    bare_run = replace(run, start=replace(run.start, snapshot=bare))
    assert canary_of(bare_run).forward_tags == [LaunchTag.TAIL_K_FULL]


def test_records_are_taken_over_without_what_a_trace_does_not_have(short_run: Path) -> None:
    snapshot = api.open_run(short_run).later[-1].read().snapshot
    canary = canary_of(api.open_run(short_run))
    known = canary.load(snapshot)
    records = canary.records("k.tail", snapshot.slots.copy())
    wanted = snapshot.canary["k.tail"].read()
    assert np.any(wanted[:, 3] != 0)
    assert records[:, :3].tolist() == wanted[:, :3].tolist()
    assert not records[:, 3].any()
    assert np.flatnonzero(known["k.tail"]).tolist() == snapshot.slots.tolist()


def test_copies_are_read_before_one_is_written(short_run: Path) -> None:
    canary = canary_of(api.open_run(short_run))
    rows = torch.arange(16, dtype=torch.int64).reshape(4, 4)
    canary.pool.buffers["k.tail"].view(torch.int64)[4:8] = rows
    canary.copy_records(np.array([4, 5, 6]), np.array([5, 6, 4]))
    assert canary.records("k.tail", np.arange(4, 8)).tolist() == rows[[2, 0, 1, 3]].tolist()


def test_a_pool_that_cannot_fit_is_refused(short_run: Path) -> None:
    run = api.open_run(short_run)
    huge = replace(run.start.snapshot, num_slots=1 << 32)
    with pytest.raises(LimitExceeded, match="4,294,967,296 slots"):
        canary_of(replace(run, start=replace(run.start, snapshot=huge)))


def test_a_stall_has_the_engines_step_and_not_the_number_of_the_replays(short_run: Path) -> None:
    """The replay begins at step 0 here, and its rows skip none: steps and numbers agree."""
    replay = replay_until(short_run, 25, health_check_every_n_steps=10)
    canary = replay._pool.canary
    assert canary.manager.step == 25
    assert not canary.stalls
    assert canary._step_of == {10: 10, 20: 20, 25: 25}
