"""Which kernels a launch runs: its tensors' device decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from kvaudit.backends.cuda_device import require_cuda
from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.kernel_set import KernelSet, kernel_set
from kvaudit.backends.launch_arrays import CudaArrays, HostArrays, LaunchArrays
from kvaudit.backends.torch_module import torch

KernelChoice = Callable[[torch.device], AbstractContextManager[tuple[KernelSet, LaunchArrays]]]


@contextmanager
def reference_kernels(device: torch.device) -> Iterator[tuple[KernelSet, LaunchArrays]]:
    """The reference kernels; tensors of a device go through host memory and back."""
    del device
    arrays = HostArrays()
    yield kernel_set("reference"), arrays
    arrays.write_back()


@contextmanager
def device_kernels(device: torch.device) -> Iterator[tuple[KernelSet, LaunchArrays]]:
    """The kernels for tensors of a device.

    Raises:
        ValueError: launches run on neither of its kind.
        BackendNotInstalled, NoDevice, DeviceUnsupported: the CUDA kernels cannot run.
        DeviceFailed: the device reported an error.
    """
    if device.type == "cpu":
        yield kernel_set("numba_cpu"), HostArrays()
        return
    if device.type != "cuda":
        raise ValueError(f"tensors are on {device}; launches run on cpu and cuda")
    require_cuda()
    from kvaudit.kernels.cuda_module import cuda, on_stream

    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    with cuda_errors_translated(), cuda.gpus[device.index or 0], on_stream(stream):
        yield kernel_set("numba_cuda"), CudaArrays(device)
