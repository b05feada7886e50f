from __future__ import annotations

import inspect
from dataclasses import fields

from kvaudit.backends import launch
from kvaudit.runner.live.step_inputs import CanaryBatch, WrittenEntries


def test_a_batch_has_the_launch_apis_names_for_what_it_gives() -> None:
    """All but the window pool's own slots, which stand in for out_cache_loc there."""
    launchers = (launch.launch_canary_plan_kernels, launch.launch_canary_write_kernel)
    known = {name for launcher in launchers for name in inspect.signature(launcher).parameters}
    assert {field.name for field in fields(CanaryBatch)} - known == {"swa_out_cache_loc"}
    assert {field.name for field in fields(WrittenEntries)} < known
