"""Launches prepared once for steps that repeat."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.backends.launch_binding import Enqueue
from kvaudit.backends.launch_kernels import device_kernels, on_torch_stream
from kvaudit.backends.launch_once import Launch
from kvaudit.backends.prepared_cuda import RecordedKernels
from kvaudit.backends.torch_module import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedLaunch:
    """A launch that is checked, compiled and bound to its tensors; a call runs it.

    On CUDA a call enqueues the folds of all sources and the launch on torch's current stream of
    the tensors' device. It checks, allocates and compiles nothing and waits for nothing, and
    becomes part of a graph that torch is capturing on that stream. On the CPU it runs at once.

    Between calls, the contents of all tensors may change: KV, records, plan, num_valid, enable.
    Tensors stay where they are: their memory is kept alive, and what `set_` or an assignment to
    `data` puts in its place is not seen. Shapes, tag, mode and flags are those of the preparation.

    Calls share scratch memory: they follow one another, on one stream or ordered by events. Keep
    the object for as long as its work, or a graph that captured it, may run.

    Fields:
        device: where the tensors live.
        enqueue: what a call runs.
    """

    device: torch.device
    enqueue: Enqueue

    def __call__(self) -> None:
        """Run the launch on what its tensors hold.

        Raises:
            DeviceFailed: the device reported an error.
            ValueError: a plan launch on the CPU met an index outside its tables.
        """
        self.enqueue()


def prepare(launch: Launch) -> PreparedLaunch:
    """Check a launch, compile its kernels and bind them to its tensors.

    Raises:
        ValueError: an argument cannot be used, launches run on neither of the device's kind, or a
            graph is being captured.
        BackendNotInstalled, NoDevice, DeviceUnsupported: the CUDA kernels cannot run.
        DeviceFailed: the device reported an error.
    """
    device = launch.check()
    with on_torch_stream(device):
        enqueue = launch.bind(device_kernels(device))
    if device.type == "cuda":
        enqueue = RecordedKernels(enqueue, device)
    return PreparedLaunch(device=device, enqueue=enqueue)
