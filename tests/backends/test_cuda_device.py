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


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A driver that lists the given devices."""

    def install(*devices: Any) -> None:
        stand_in = SimpleNamespace(gpus=devices, get_current_device=lambda: devices[0])
        monkeypatch.setattr(ctypes, "CDLL", lambda _name: None)
        monkeypatch.setattr(cuda_module, "cuda", stand_in)

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
    driver(SimpleNamespace(name=b"Tesla P100", compute_capability=(6, 0)))
    with pytest.raises(DeviceUnsupported, match=r"Tesla P100 \(6\.0\).*7\.0"):
        cuda_device.require_cuda()


def test_a_usable_device_is_named(driver: Any) -> None:
    driver(SimpleNamespace(name=b"NVIDIA H200", compute_capability=(9, 0)))
    assert cuda_device.require_cuda() == "NVIDIA H200 (9.0)"
