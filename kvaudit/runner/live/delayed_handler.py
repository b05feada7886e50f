"""Values of a device, handed to the host a step or more later and never waited for."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.backends.torch_module import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeliveredCopy:
    """What a tensor held when it was staged.

    Fields:
        values: a host tensor of the staged one's shape and dtype, owned by whoever gets it.
        step: the step at which it was staged.
    """

    values: torch.Tensor
    step: int


class DelayedDeviceHostHandler:
    """Copies a tensor to the host behind a running device, at most one copy at a time.

    `step` with a tensor stages it: the values of this point of the current stream are cloned on the
    device, and a side stream takes the clone to pinned memory. A later call delivers them. No call
    but `flush` waits: a copy that is not finished stays pending, and nothing is staged meanwhile.
    Buffers, streams and events are made once. Of host tensors the clone itself is delivered.

    Args:
        like: a tensor with the device, dtype and shape of all that will be staged.
    """

    def __init__(self, like: torch.Tensor) -> None:
        # An engine may make it in inference mode, whose tensors cannot be changed outside of it.
        with torch.inference_mode(mode=False):
            self._clone = torch.empty(like.shape, dtype=like.dtype, device=like.device)
            self._copier = _SideStreamCopy(self._clone) if like.device.type == "cuda" else None
        self._staged_step: int | None = None

    @property
    def staged_step(self) -> int | None:
        """The step whose copy is pending; None without one."""
        return self._staged_step

    def step(self, tensor: torch.Tensor | None, *, step: int) -> DeliveredCopy | None:
        """Deliver the pending copy if it is finished, then stage a tensor if none is pending.

        Args:
            tensor: what to stage; None stages nothing.
            step: the step to deliver it with.

        Returns:
            what an earlier call staged; None while nothing is finished.

        Raises:
            ValueError: the tensor is not like the one that the buffers were made for.
            DeviceFailed: the device reported an error, of a copy or of what ran before it.
        """
        delivered = self._delivered(waits=False)
        if tensor is not None and self._staged_step is None:
            self._stage(tensor, step)
        return delivered

    def flush(self) -> DeliveredCopy | None:
        """Wait for the pending copy and deliver it; None without one.

        Raises:
            DeviceFailed: the device reported an error.
        """
        return self._delivered(waits=True)

    def _stage(self, tensor: torch.Tensor, step: int) -> None:
        if (tensor.device, tensor.dtype, tensor.shape) != (
            self._clone.device,
            self._clone.dtype,
            self._clone.shape,
        ):
            raise ValueError(
                f"tensor: is {tensor.dtype} {list(tensor.shape)} on {tensor.device}, but the buffers "
                f"are for {self._clone.dtype} {list(self._clone.shape)} on {self._clone.device}"
            )
        if self._copier is None:
            self._clone.copy_(tensor)
        else:
            with cuda_errors_translated():
                self._copier.start(tensor)
        self._staged_step = step

    def _delivered(self, *, waits: bool) -> DeliveredCopy | None:
        if self._staged_step is None:
            return None
        values = self._clone
        if self._copier is not None:
            with cuda_errors_translated():
                if not self._copier.has_arrived(waits=waits):
                    return None
            values = self._copier.host
        step, self._staged_step = self._staged_step, None
        # The buffer is for the next copy.
        return DeliveredCopy(values=values.clone(), step=step)


class _SideStreamCopy:
    """From a tensor of a CUDA device by a clone to pinned memory.

    Args:
        clone: the buffer on the device.
    """

    def __init__(self, clone: torch.Tensor) -> None:
        self._clone = clone
        self.host = torch.empty(clone.shape, dtype=clone.dtype, pin_memory=True)
        self._side = torch.cuda.Stream(clone.device)
        self._cloned = torch.cuda.Event()
        self._arrived = torch.cuda.Event()

    def start(self, tensor: torch.Tensor) -> None:
        """Enqueue both copies. The last one must have been finished: it used the same buffers."""
        self._clone.copy_(tensor, non_blocking=True)
        self._cloned.record(torch.cuda.current_stream(self._clone.device))
        self._side.wait_event(self._cloned)
        with torch.cuda.stream(self._side):
            self.host.copy_(self._clone, non_blocking=True)
        self._arrived.record(self._side)

    def has_arrived(self, *, waits: bool) -> bool:
        """Whether `host` has the copy; one that waits comes back when it has."""
        if waits:
            self._arrived.synchronize()
        return bool(self._arrived.query())
