from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit import api
from kvaudit.core.report import Verdict
from kvaudit.errors import ConfigError, InputError
from tests.helpers.replays import record_toy
from tests.helpers.watcher import Watcher


def test_a_recorded_run_runs_again_and_agrees(tmp_path: Path) -> None:
    record_toy(tmp_path / "run", num_steps=6)
    watcher = Watcher()
    report = api.replay(api.open_run(tmp_path / "run"), backend="reference", observer=watcher)
    assert report.verdict is Verdict.CLEAN
    assert watcher.stages


def test_a_variable_of_the_canary_that_cannot_be_understood_is_refused(tmp_path: Path) -> None:
    record_toy(tmp_path / "run", num_steps=2)
    run = api.open_run(tmp_path / "run")
    with pytest.raises(ConfigError):
        api.replay(run, backend="cpu", environ={"KVAUDIT_CANARY_RING_CAPACITY": "many"})


def test_a_folder_without_a_trace_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        api.open_run(tmp_path)
