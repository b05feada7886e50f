from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from kvaudit.backends import launch
from kvaudit.runner.live.launches import DEVICE_LAUNCHES, REFERENCE_LAUNCHES, CanaryLaunches


@pytest.mark.parametrize("name", [field.name for field in fields(CanaryLaunches)])
def test_device_and_reference_launchers_take_the_same_arguments(name: str) -> None:
    chosen = [getattr(launches, name) for launches in (DEVICE_LAUNCHES, REFERENCE_LAUNCHES)]
    assert inspect.signature(chosen[0]) == inspect.signature(chosen[1])
    assert [launcher.__name__.partition("_torch_reference")[1] for launcher in chosen] == [
        "",
        "_torch_reference",
    ]
    assert all(getattr(launch, launcher.__name__) is launcher for launcher in chosen)
