"""The order of a launch's parts; `test_launch` has what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kvaudit.backends import launch_fold, launch_fold_reference
from kvaudit.backends.launch_kernels import LaunchKernels
from kvaudit.backends.launch_once import launch_on_device, launch_on_reference

RUNS = [
    pytest.param(launch_on_device, "numba_cpu", launch_fold.bind_fold, id="device"),
    pytest.param(launch_on_reference, "reference", launch_fold_reference.bind_fold, id="reference"),
]


class NotedLaunch:
    """Notes what is asked of it."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.noted: list[str] = []
        self.chosen: LaunchKernels | None = None

    def check(self) -> torch.device:
        self.noted.append("check")
        if self.fault:
            raise ValueError(self.fault)
        return torch.device("cpu")

    def bind(self, chosen: LaunchKernels) -> Callable[[], None]:
        self.noted.append("bind")
        self.chosen = chosen
        return lambda: self.noted.append("run")


@pytest.mark.parametrize(("run", "module", "bind_fold"), RUNS)
def test_a_launch_is_checked_then_bound_to_its_kernels_then_run(
    run: Any, module: str, bind_fold: Any
) -> None:
    launch = NotedLaunch()
    run(launch)
    assert launch.noted == ["check", "bind", "run"]
    assert launch.chosen.kernels.launch_verify.__module__.endswith(module)
    assert launch.chosen.bind_fold is bind_fold


@pytest.mark.parametrize(("run", "_module", "_bind_fold"), RUNS)
def test_a_launch_that_is_refused_is_not_bound(run: Any, _module: str, _bind_fold: Any) -> None:
    launch = NotedLaunch(fault="ring: is a list")
    with pytest.raises(ValueError, match="ring"):
        run(launch)
    assert launch.noted == ["check"]
