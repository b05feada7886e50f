"""Which kernels a launch runs: its tensors' device decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from kvaudit.backends.cuda_device import require_cuda
from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.launch_arrays import CudaArrays, HostArrays, LaunchArrays
from kvaudit.backends.torch_module import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchKernels:
    """The launchers of one implementation; see the contracts in `kernels`."""

    launch_fold: Callable[..., None]
    launch_combine: Callable[..., None]
    launch_verify: Callable[..., None]
    launch_write: Callable[..., None]
    launch_plan: Callable[..., None]


KernelChoice = Callable[[torch.device], AbstractContextManager[tuple[LaunchKernels, LaunchArrays]]]


@cache
def _implementation(name: str) -> LaunchKernels:
    """The launchers of `reference`, `numba_cpu` or `numba_cuda`."""
    modules = {
        operation: import_module(f"kvaudit.kernels.{operation}.{name}")
        for operation in ("fold", "verify", "write", "plan")
    }
    return LaunchKernels(
        launch_fold=modules["fold"].launch_fold,
        launch_combine=modules["fold"].launch_combine,
        launch_verify=modules["verify"].launch_verify,
        launch_write=modules["write"].launch_write,
        launch_plan=modules["plan"].launch_plan,
    )


@contextmanager
def reference_kernels(device: torch.device) -> Iterator[tuple[LaunchKernels, LaunchArrays]]:
    """The reference kernels; tensors of a device go through host memory and back."""
    del device
    arrays = HostArrays()
    yield _implementation("reference"), arrays
    arrays.write_back()


@contextmanager
def device_kernels(device: torch.device) -> Iterator[tuple[LaunchKernels, LaunchArrays]]:
    """The kernels for tensors of a device.

    Raises:
        ValueError: launches run on neither of its kind.
        BackendNotInstalled, NoDevice, DeviceUnsupported: the CUDA kernels cannot run.
        DeviceFailed: the device reported an error.
    """
    if device.type == "cpu":
        yield _implementation("numba_cpu"), HostArrays()
        return
    if device.type != "cuda":
        raise ValueError(f"tensors are on {device}; launches run on cpu and cuda")
    require_cuda()
    from kvaudit.kernels.cuda_module import cuda, on_stream

    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    with cuda_errors_translated(), cuda.gpus[device.index or 0], on_stream(stream):
        yield _implementation("numba_cuda"), CudaArrays(device)
