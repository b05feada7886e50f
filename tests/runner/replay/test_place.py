from __future__ import annotations

import pytest
import torch

from kvaudit.errors import BackendError, ConfigError, NoDevice
from kvaudit.runner.live import REFERENCE_LAUNCHES
from kvaudit.runner.replay import place as place_module
from kvaudit.runner.replay.place import choose_place


def test_auto_is_the_host_and_says_why() -> None:
    backend, choice, place = choose_place("auto")
    assert backend.name == choice.name == "cpu"
    assert "small" in choice.reason
    assert place.device.type == "cpu"
    assert place.launches is None


def test_the_reference_has_launchers_of_its_own() -> None:
    backend, choice, place = choose_place("reference")
    assert backend.name == choice.name == "reference"
    assert choice.reason == "asked for by name"
    assert place.launches is REFERENCE_LAUNCHES


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="tpu"):
        choose_place("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device here")
def test_a_device_that_is_not_here_is_a_demand_that_is_not_met() -> None:
    with pytest.raises(BackendError):
        choose_place("cuda")


def test_a_torch_without_cuda_cannot_hold_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, choice, _ = choose_place("cpu")
    monkeypatch.setattr(
        place_module, "choose", lambda *_args, **_kwargs: (backend, _named(choice, "cuda"))
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoDevice, match="torch") as caught:
        choose_place("cuda")
    assert caught.value.hint


def _named(choice, name: str):
    from dataclasses import replace

    return replace(choice, name=name)
