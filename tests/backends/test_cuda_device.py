"""Why CUDA cannot run, told apart. The device itself is a stand-in: only its words matter here."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from kvaudit.backends import cuda_device
from kvaudit.errors import BackendNotInstalled, DeviceUnsupported, NoDevice
from kvaudit.kernels import cuda_module


@pytest.fixture(autouse=True)
def _forgetful() -> Any:
    cuda_device.require_cuda.cache_clear()
    yield
    cuda_device.require_cuda.cache_clear()


class DeviceList(list[Any]):
    """Devices, and the one whose context is the current one; None before any was made."""

    current: Any


H200 = SimpleNamespace(name=b"NVIDIA H200", compute_capability=(9, 0))
P100 = SimpleNamespace(name="Tesla P100", compute_capability=(6, 0))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A driver that lists the given devices, of which one may be in use already."""

    def install(*devices: Any, current: Any = None) -> None:
        gpus = DeviceList(devices)
        gpus.current = current
        monkeypatch.setattr(ctypes, "CDLL", lambda _name: None)
        monkeypatch.setattr(cuda_module, "cuda", SimpleNamespace(gpus=gpus))

    return install


def test_a_missing_package_names_the_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_device, "find_spec", lambda _name: None)
    with pytest.raises(BackendNotInstalled) as failure:
        cuda_device.require_cuda()
    assert "cuda12" in failure.value.hint
    assert "cuda13" in failure.value.hint


def test_a_missing_driver_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(NoDevice, match="driver"):
        cuda_device.require_cuda()


def test_a_driver_without_devices_is_no_device(driver: Any) -> None:
    driver()
    with pytest.raises(NoDevice, match="lists no CUDA device"):
        cuda_device.require_cuda()


def test_an_old_device_is_unsupported_by_name(driver: Any) -> None:
    driver(P100)
    with pytest.raises(DeviceUnsupported, match=r"Tesla P100 \(6\.0\).*8\.0"):
        cuda_device.require_cuda()


def test_a_usable_device_is_named_and_no_context_is_made(driver: Any) -> None:
    driver(H200)
    assert cuda_device.require_cuda() == "NVIDIA H200 (9.0)"


def test_the_device_that_is_in_use_is_the_one(driver: Any) -> None:
    driver(P100, H200, current=H200)
    assert cuda_device.require_cuda() == "NVIDIA H200 (9.0)"


def test_every_device_that_is_new_enough_can_be_used(driver: Any) -> None:
    driver(H200, P100, H200)
    assert cuda_device.usable_devices() == [(0, "NVIDIA H200 (9.0)"), (2, "NVIDIA H200 (9.0)")]


def test_a_driver_is_made_sure_of_without_a_device(driver: Any) -> None:
    driver()
    cuda_device.require_driver()
