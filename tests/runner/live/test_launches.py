"""The seam: which launchers it calls, and what it prepares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch

from kvaudit.backends import launch
from kvaudit.runner.live.launches import (
    REFERENCE_LAUNCHES,
    CanaryLaunches,
    RepeatedLaunch,
    device_launches,
)


@pytest.mark.parametrize("name", [field.name for field in fields(CanaryLaunches)])
def test_device_reference_and_prepared_launchers_take_the_same_arguments(name: str) -> None:
    repeated = getattr(device_launches(), name)
    reference = getattr(REFERENCE_LAUNCHES, name)
    launchers = (reference, repeated._launcher, repeated._prepare)
    parameters = [inspect.signature(launcher).parameters for launcher in launchers]
    assert parameters[0] == parameters[1] == parameters[2]
    assert repeated._owner in parameters[0]
    kernels = repeated._launcher.__name__.removeprefix("launch_")
    assert reference.__name__ == f"launch_{kernels}_torch_reference"
    assert repeated._prepare is getattr(launch, f"prepare_{kernels}")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def repeated(log: list[str]) -> RepeatedLaunch:
    def prepare(**given: Any) -> Callable[[], None]:
        log.append(f"prepare {given['number']}")
        return lambda: log.append(f"prepared {given['number']}")

    return RepeatedLaunch(
        lambda **given: log.append(f"launch {given['number']}"), prepare=prepare, owner="owner"
    )


OWNER, OTHER = object(), object()


def test_a_launch_is_prepared_when_it_comes_a_second_time(
    repeated: RepeatedLaunch, log: list[str]
) -> None:
    tensor = torch.zeros(3)
    for _ in range(3):
        repeated(owner=OWNER, tensor=tensor, number=1000)
    assert log == ["launch 1000", "prepare 1000", "prepared 1000", "prepared 1000"]


def test_another_tensor_of_the_same_values_is_another_launch(
    repeated: RepeatedLaunch, log: list[str]
) -> None:
    for _ in range(3):
        repeated(owner=OWNER, tensor=torch.zeros(3), number=1)
    assert log == ["launch 1"] * 3


def test_launches_in_between_leave_what_is_prepared(
    repeated: RepeatedLaunch, log: list[str]
) -> None:
    tensor = torch.zeros(3)
    for number in (1, 1, 2, 1, 2, 1):
        repeated(owner=OWNER, tensor=tensor, number=number)
    assert log == [
        "launch 1",
        "prepare 1",
        "prepared 1",
        "launch 2",
        "prepared 1",
        "prepare 2",
        "prepared 2",
        "launch 1",
    ]


def test_each_owner_has_a_launch_of_its_own(repeated: RepeatedLaunch, log: list[str]) -> None:
    tensor = torch.zeros(3)
    for _ in range(3):
        for owner, number in ((OWNER, 1), (OTHER, 2)):
            repeated(owner=owner, tensor=tensor, number=number)
    assert log.count("launch 1") == log.count("launch 2") == 1
    assert log.count("prepared 1") == log.count("prepared 2") == 2


def test_an_argument_that_comes_or_goes_is_another_launch(
    repeated: RepeatedLaunch, log: list[str]
) -> None:
    repeated(owner=OWNER, number=1, flag=None)
    repeated(owner=OWNER, number=1, flag=False)
    repeated(owner=OWNER, number=1)
    assert log == ["launch 1"] * 3
