"""Launches that are checked, bound and run in one call."""

from __future__ import annotations

from typing import Protocol

from kvaudit.backends import launch_fold_reference
from kvaudit.backends.kernel_set import kernel_set
from kvaudit.backends.launch_arrays import HostArrays
from kvaudit.backends.launch_binding import Enqueue
from kvaudit.backends.launch_kernels import LaunchKernels, device_kernels, on_torch_stream
from kvaudit.backends.torch_module import torch


class Launch(Protocol):
    """A launch and its arguments."""

    def check(self) -> torch.device:
        """Where the tensors live; a ValueError names what cannot be used."""
        ...

    def bind(self, chosen: LaunchKernels) -> Enqueue:
        """The launch on its tensors' own memory; what it needs besides is allocated here."""
        ...


def launch_on_device(launch: Launch) -> None:
    """Run a launch where its tensors are.

    Raises:
        ValueError: an argument cannot be used, or launches run on neither of the device's kind.
        BackendNotInstalled, NoDevice, DeviceUnsupported: the CUDA kernels cannot run.
        DeviceFailed: the device reported an error.
    """
    device = launch.check()
    with on_torch_stream(device):
        launch.bind(device_kernels(device))()


def launch_on_reference(launch: Launch) -> None:
    """Run a launch on the reference kernels; tensors of a device go through host memory and back.

    Raises:
        ValueError: an argument cannot be used.
    """
    launch.check()
    arrays = HostArrays()
    reference = LaunchKernels(
        kernels=kernel_set("reference"), arrays=arrays, bind_fold=launch_fold_reference.bind_fold
    )
    launch.bind(reference)()
    arrays.write_back()
