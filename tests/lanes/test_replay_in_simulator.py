"""A short trace replayed with the device's kernels in numba's simulator, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.helpers.command_line import python
from tests.helpers.replays import record_toy, replayed, said


def test_the_simulator_says_what_the_host_says(tmp_path: Path) -> None:
    record_toy(tmp_path, num_steps=12, digests_every=5)
    done = python("-m", "tests.helpers.simulated_replay", tmp_path, NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 0, done.stderr
    simulated = json.loads(done.stdout)
    assert simulated["report"] == json.loads(json.dumps(said(replayed(tmp_path))))
    assert simulated["report"]["verdict"] == "clean"
    # Two tags and a plan each step.
    assert simulated["launches"] == {"launch_verify": 24, "launch_write": 24, "launch_plan": 12}
