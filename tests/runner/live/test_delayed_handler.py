"""Values that come a step late, and never by waiting."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from kvaudit.errors import DeviceFailed
from kvaudit.runner.live.delayed_handler import DelayedDeviceHostHandler

ON_A_DEVICE = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]
DEVICES = ["cpu", pytest.param("cuda", marks=ON_A_DEVICE)]


def _handler(device: str) -> tuple[DelayedDeviceHostHandler, torch.Tensor]:
    tensor = torch.arange(5, device=device)
    return DelayedDeviceHostHandler(tensor), tensor


def _settle(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@pytest.mark.parametrize("device", DEVICES)
def test_a_later_call_delivers_what_the_tensor_held_when_it_was_staged(device: str) -> None:
    handler, tensor = _handler(device)
    assert handler.step(tensor, step=7) is None
    tensor.zero_()
    _settle(device)
    delivered = handler.step(None, step=8)
    assert delivered is not None
    assert (delivered.values.tolist(), delivered.step) == ([0, 1, 2, 3, 4], 7)
    assert delivered.values.device.type == "cpu"
    assert handler.step(None, step=9) is None


@pytest.mark.parametrize("device", DEVICES)
def test_one_call_delivers_and_stages_and_what_was_delivered_stays(device: str) -> None:
    handler, tensor = _handler(device)
    handler.step(tensor, step=1)
    _settle(device)
    first = handler.step(tensor.add_(1), step=2)
    _settle(device)
    second = handler.step(None, step=3)
    assert first.values.tolist() == [0, 1, 2, 3, 4]
    assert (second.values.tolist(), second.step) == ([1, 2, 3, 4, 5], 2)


@pytest.mark.parametrize("device", DEVICES)
def test_none_stages_nothing_and_flush_delivers_the_last(device: str) -> None:
    handler, tensor = _handler(device)
    assert handler.step(None, step=1) is None
    assert handler.flush() is None
    handler.step(tensor, step=2)
    last = handler.flush()
    assert (last.values.tolist(), last.step) == ([0, 1, 2, 3, 4], 2)
    assert handler.flush() is None


@pytest.mark.parametrize(
    "tensor", [torch.zeros(4), torch.zeros(5), torch.zeros((5, 1), dtype=torch.int64)]
)
def test_a_tensor_unlike_the_buffers_is_refused(tensor: torch.Tensor) -> None:
    handler, _ = _handler("cpu")
    with pytest.raises(ValueError, match=r"^tensor: is "):
        handler.step(tensor, step=1)


class _SlowCopy:
    """A side-stream copy that arrives when told, as a device in the middle of work does."""

    def __init__(self, clone: torch.Tensor) -> None:
        self.host = clone
        self.is_done = False
        self.error: Exception | None = None

    def start(self, tensor: torch.Tensor) -> None:
        self.host.copy_(tensor)
        self.is_done = False

    def has_arrived(self, *, waits: bool) -> bool:
        assert not waits
        if self.error is not None:
            raise self.error
        return self.is_done


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> tuple[DelayedDeviceHostHandler, Any]:
    handler, tensor = _handler("cpu")
    copy = _SlowCopy(tensor.clone())
    monkeypatch.setattr(handler, "_copier", copy)
    return handler, copy


def test_a_copy_that_is_not_finished_stays_pending_and_keeps_its_step(slow: Any) -> None:
    handler, copy = slow
    tensor = torch.arange(5)
    handler.step(tensor, step=1)
    assert handler.step(tensor + 1, step=2) is None
    assert handler.staged_step == 1
    copy.is_done = True
    delivered = handler.step(tensor + 2, step=3)
    assert (delivered.values.tolist(), delivered.step) == ([0, 1, 2, 3, 4], 1)
    assert handler.staged_step == 3


def test_a_device_error_is_raised_as_ours(slow: Any) -> None:
    handler, copy = slow
    handler.step(torch.arange(5), step=1)
    copy.error = torch.AcceleratorError("an illegal memory access was encountered")
    with pytest.raises(DeviceFailed):
        handler.step(None, step=2)


def _busy(milliseconds: float) -> None:
    """Keep the current stream busy: spin for so many cycles of a clock of about 2 GHz."""
    torch.cuda._sleep(int(milliseconds * 2e6))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_device_busy_for_200_ms_delays_no_call_and_the_staged_values_come_later() -> None:
    handler, tensor = _handler("cuda")
    handler.step(tensor, step=0)
    assert handler.flush() is not None  # streams and events exist
    # A kernel's first launch loads it, which waits for the device.
    _busy(1)
    tensor.mul_(1)
    torch.cuda.synchronize()
    _busy(300)
    tensor.mul_(10)
    longest = 0.0
    for step in range(1, 21):
        start = time.perf_counter()
        delivered = handler.step(tensor if step == 1 else None, step=step)
        longest = max(longest, time.perf_counter() - start)
        assert delivered is None
    assert not torch.cuda.current_stream().query(), "the device was not busy long enough"
    assert longest < 1e-3
    tensor.zero_()
    delivered = handler.flush()
    assert (delivered.values.tolist(), delivered.step) == ([0, 10, 20, 30, 40], 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_device_and_pinned_memory_stay_the_same_over_10_000_steps() -> None:
    handler, tensor = _handler("cuda")

    def memory() -> tuple[int, int, int]:
        torch.cuda.synchronize()
        pinned = torch.cuda.host_memory_stats()
        return (
            torch.cuda.memory_allocated(),
            torch.cuda.memory_reserved(),
            pinned["allocated_bytes.current"],
        )

    for step in range(10):
        handler.step(tensor, step=step)
    before = memory()
    num_delivered = sum(handler.step(tensor, step=step) is not None for step in range(10, 10_010))
    assert memory() == before
    assert num_delivered > 1000
