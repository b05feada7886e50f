"""Which kernels a launch runs, and on which stream: its tensors' device decides."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kvaudit.backends import launch_fold
from kvaudit.backends.cuda_device import require_cuda
from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.kernel_set import KernelSet, kernel_set
from kvaudit.backends.launch_arrays import CudaArrays, HostArrays, LaunchArrays
from kvaudit.backends.launch_binding import BindFold
from kvaudit.backends.torch_module import torch

_suspending = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaunchKernels:
    """What launches are made of.

    Fields:
        kernels: the launchers.
        arrays: how tensors become their arrays.
        bind_fold: makes the fold of a context's sources.
    """

    kernels: KernelSet
    arrays: LaunchArrays
    bind_fold: BindFold


def device_kernels(device: torch.device) -> LaunchKernels:
    """The kernels for tensors of a device; launched and bound where `on_torch_stream`."""
    on_cuda = device.type == "cuda"
    return LaunchKernels(
        kernels=kernel_set("numba_cuda" if on_cuda else "numba_cpu"),
        arrays=CudaArrays(device) if on_cuda else HostArrays(),
        bind_fold=launch_fold.bind_fold,
    )


@contextmanager
def on_torch_stream(device: torch.device) -> Iterator[None]:
    """Launches of this context are enqueued on torch's current stream of a device.

    Raises:
        ValueError: launches run on neither of its kind.
        BackendNotInstalled, NoDevice, DeviceUnsupported: the CUDA kernels cannot run.
        DeviceFailed: the device reported an error.
    """
    if device.type == "cpu":
        yield
        return
    if device.type != "cuda":
        raise ValueError(f"tensors are on {device}; launches run on cpu and cuda")
    require_cuda()
    from kvaudit.kernels.cuda_module import cuda, free_nothing_at_exit, on_stream

    device_idx = device.index or 0
    with cuda_errors_translated():
        free_nothing_at_exit(device_idx)
    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    with cuda_errors_translated(), cuda.gpus[device_idx], on_stream(stream):
        yield


@contextmanager
def frees_deferred(device: torch.device) -> Iterator[None]:
    """Nothing of a CUDA device is freed by this thread in this context.

    A free by the thread that captures a graph ends the capture: of numba-cuda's memory, or of a
    stream, an event or a graph of anyone's, which Python may happen to collect meanwhile.
    """
    from kvaudit.kernels.cuda_module import cuda

    with _collection_suspended(), cuda.gpus[device.index or 0], cuda.defer_cleanup():
        yield


@contextmanager
def _collection_suspended() -> Iterator[None]:
    """Python collects nothing in this context, of which there is one at a time."""
    with _suspending:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
