"""Verify plans as an engine records them, and a replay in the middle of its run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kvaudit import api
from kvaudit.core.observer import SilentObserver
from kvaudit.core.plan import PlannedLaunch, VerifyPlan
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.runner.live import CanaryConfig
from kvaudit.runner.replay import ReplayOptions, choose_place
from kvaudit.runner.replay.run import _Replay


def verify_launch(
    recorded: RecordedStep, *, slots: Sequence[int], enable: bool = True
) -> PlannedLaunch:
    """The plan of one request's slots from position 0 on."""
    chain = np.array([-1, *slots], dtype=np.int64)
    plan = VerifyPlan(
        verify_slot_indices=chain[1:],
        verify_expected_tokens=np.full(len(slots), -1, dtype=np.int64),
        verify_expected_positions=np.arange(len(slots), dtype=np.int64),
        verify_prev_slot_indices=chain[:-1],
        num_valid=len(slots),
        enable=enable,
    )
    return PlannedLaunch(
        step=recorded.step, tags=recorded.tags, plan=plan, check_verify_expected_token=False
    )


def replay_until(folder: Path, step: int, **config: object) -> _Replay:
    """A replay after a step."""
    backend, _, place = choose_place("cpu")
    replay = _Replay(
        api.open_run(folder, until=step),
        backend=backend,
        place=place,
        options=ReplayOptions(config=CanaryConfig(**config)),
    )
    replay.run_all(SilentObserver())
    return replay
