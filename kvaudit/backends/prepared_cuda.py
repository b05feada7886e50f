"""The kernels of a launch on a CUDA device, recorded once.

Each kernel that numba-cuda launches costs the host around 0.1 ms, which goes into describing its
arrays, and a launch with sources takes many. Recorded as a CUDA graph they cost one driver call.
"""

from __future__ import annotations

from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.launch_binding import Enqueue
from kvaudit.backends.launch_kernels import frees_deferred, on_torch_stream
from kvaudit.backends.torch_module import torch


class RecordedKernels:
    """A launch's kernels as one CUDA graph.

    Args:
        enqueue: enqueues the kernels where `on_torch_stream`; it allocates nothing.
        device: the device of the launch.

    Raises:
        ValueError: a graph is being captured, in which nothing can be compiled or recorded.
        DeviceFailed: the device reported an error.
    """

    def __init__(self, enqueue: Enqueue, device: torch.device) -> None:
        self._enqueue = enqueue
        self._device = device
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                raise ValueError(
                    "torch is capturing a graph: prepare the launch before, call it in it"
                )
            self._load_kernels()
            self._record()

    def __call__(self) -> None:
        """Enqueue the kernels on torch's current stream, or add them to the graph it captures."""
        with cuda_errors_translated(), torch.cuda.device(self._device):
            if torch.cuda.is_current_stream_capturing():
                # A graph cannot be launched into another.
                with frees_deferred(self._device), on_torch_stream(self._device):
                    self._enqueue()
            else:
                self._graph.replay()

    def _load_kernels(self) -> None:
        from kvaudit.kernels.cuda_module import load_only

        with on_torch_stream(self._device), load_only():
            self._enqueue()

    def _record(self) -> None:
        stream = torch.cuda.Stream(self._device)
        # Other threads of an engine may go on allocating meanwhile.
        recording = torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local")
        with (
            cuda_errors_translated(),
            frees_deferred(self._device),
            recording,
            on_torch_stream(self._device),
        ):
            self._enqueue()
