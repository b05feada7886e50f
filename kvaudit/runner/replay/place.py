"""Where a replay runs: the device of its tensors, and the backend that folds bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kvaudit.backends.availability import AUTO, choose
from kvaudit.backends.torch_module import torch
from kvaudit.core.backend import Backend
from kvaudit.core.report import BackendChoice
from kvaudit.errors import NoDevice
from kvaudit.runner.live import REFERENCE_LAUNCHES, CanaryLaunches

_WHY_CPU: Final = "a step's launches are small, and what follows it is looked at at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlace:
    """Where a replay runs.

    Fields:
        device: of its tensors.
        launches: the launchers; None = those of the device.
    """

    device: torch.device
    launches: CanaryLaunches | None = None


def choose_place(name: str) -> tuple[Backend, BackendChoice, ReplayPlace]:
    """The backend of a replay, and why it, and the place that goes with it.

    Args:
        name: `auto`, which is the CPU, or `cuda`, `cpu`, `reference`.

    Raises:
        ConfigError: the name is none of these.
        BackendNotInstalled: the named backend needs a package; the hint names the extra.
        NoDevice: the named backend needs a device, a driver, or a torch that knows of them.
        DeviceUnsupported: the device is too old.
    """
    chosen, choice = choose("cpu" if name == AUTO else name, kv_bytes=0, num_entries=0)
    if name == AUTO:
        choice = replace(choice, reason=_WHY_CPU)
    if choice.name != "cuda":
        launches = REFERENCE_LAUNCHES if choice.name == "reference" else None
        return chosen, choice, ReplayPlace(device=torch.device("cpu"), launches=launches)
    if not torch.cuda.is_available():
        raise NoDevice(
            "this torch knows of no CUDA device",
            hint="install a torch built for CUDA, or pass --backend cpu",
        )
    return chosen, choice, ReplayPlace(device=torch.device("cuda", torch.cuda.current_device()))
