"""How a launch's tensors become the arrays that kernels take (`kernels/__init__`)."""

from __future__ import annotations

import ctypes
import math
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kvaudit.backends import memory
from kvaudit.backends.torch_module import torch
from kvaudit.kernels.array_forms import KernelArray, frozen, read_only


class LaunchArrays(Protocol):
    """Arrays in a tensor's own memory: int64 stays signed, or is seen as the uint64 to hash."""

    def signed(self, tensor: torch.Tensor) -> KernelArray:
        """An input of the tensor's own dtype."""
        ...

    def hashed(self, tensor: torch.Tensor) -> KernelArray:
        """An int64 input as uint64."""
        ...

    def signed_output(self, tensor: torch.Tensor) -> KernelArray:
        """An in/out array of the tensor's own dtype."""
        ...

    def hashed_output(self, tensor: torch.Tensor) -> KernelArray:
        """An int64 in/out array as uint64."""
        ...

    def source(self, tensor: torch.Tensor) -> KernelArray:
        """KV bytes as uint8 [rows, row_bytes]; rows keep their stride."""
        ...

    def rows_at(
        self, address: int, *, num_rows: int, row_bytes: int, step_bytes: int
    ) -> KernelArray:
        """KV bytes from an address on as uint8 [num_rows, row_bytes]; rows may overlap.

        Nothing between the rows that a launch asks for is touched: it may be anyone's.
        """
        ...

    def written(self, scratch: KernelArray) -> KernelArray:
        """A `hashed_output` that launches fill, as an input of those after them."""
        ...

    def no_reason_bits(self) -> KernelArray:
        """Reason bits that are not wanted, shape [0], uint32."""
        ...


def byte_rows(tensor: torch.Tensor) -> torch.Tensor:
    """A source's tensor seen as uint8 [rows, row_bytes], in the same memory."""
    as_bytes = tensor.detach().view(torch.uint8)
    return as_bytes.view(tensor.shape[0], math.prod(as_bytes.shape[1:]))


def or_absent(
    tensor: torch.Tensor | None, dtype: torch.dtype, *, device: torch.device, dims: int = 1
) -> torch.Tensor:
    """The tensor, or the empty one that stands for None in the contracts."""
    return torch.empty((0,) * dims, dtype=dtype, device=device) if tensor is None else tensor


class HostArrays:
    """Numpy views of host tensors, of the kinds that `memory` decides.

    A tensor of a device is copied; `write_back` then puts the in/out arrays where they came from.
    """

    def __init__(self) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def write_back(self) -> None:
        """Copy the in/out arrays of device tensors back to their device."""
        for tensor, host in self._copies:
            tensor.copy_(host)

    def signed(self, tensor: torch.Tensor) -> KernelArray:
        """An input of the tensor's own dtype."""
        return read_only(tensor.detach().cpu().numpy())

    def hashed(self, tensor: torch.Tensor) -> KernelArray:
        """An int64 input as uint64."""
        return memory.hashed_input(tensor.detach().cpu().numpy())

    def signed_output(self, tensor: torch.Tensor) -> KernelArray:
        """An in/out array of the tensor's own dtype."""
        host = tensor.detach().cpu()
        if host.device != tensor.device:
            self._copies.append((tensor, host))
        return host.numpy()

    def hashed_output(self, tensor: torch.Tensor) -> KernelArray:
        """An int64 in/out array as uint64."""
        return memory.hashed_output(self.signed_output(tensor))

    def source(self, tensor: torch.Tensor) -> KernelArray:
        """KV bytes as uint8 [rows, row_bytes]; rows keep their stride."""
        return frozen(byte_rows(tensor).cpu().numpy())

    def rows_at(
        self, address: int, *, num_rows: int, row_bytes: int, step_bytes: int
    ) -> KernelArray:
        """KV bytes from an address on as uint8 [num_rows, row_bytes]; rows may overlap."""
        span_bytes = (num_rows - 1) * step_bytes + row_bytes
        span = np.ctypeslib.as_array((ctypes.c_uint8 * span_bytes).from_address(address))
        return as_strided(span, (num_rows, row_bytes), (step_bytes, 1), writeable=False)

    def written(self, scratch: KernelArray) -> KernelArray:
        """A `hashed_output` that launches fill, as an input of those after them."""
        return memory.hashed_input(scratch)

    def no_reason_bits(self) -> KernelArray:
        """Reason bits that are not wanted, shape [0], uint32."""
        return np.empty(0, dtype=np.uint32)


class CudaArrays:
    """Device arrays over CUDA tensors, enqueued like them and never waited for.

    Args:
        device: the device of the launch.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def signed(self, tensor: torch.Tensor) -> KernelArray:
        """An input of the tensor's own dtype."""
        from kvaudit.kernels.cuda_module import cuda

        # sync=False: the launch goes to the stream that the tensor's own work goes to.
        return cuda.as_cuda_array(tensor.detach(), sync=False)

    def hashed(self, tensor: torch.Tensor) -> KernelArray:
        """An int64 input as uint64."""
        return self.signed(tensor).view(np.uint64)

    signed_output = signed
    hashed_output = hashed

    def source(self, tensor: torch.Tensor) -> KernelArray:
        """KV bytes as uint8 [rows, row_bytes]; rows keep their stride."""
        return self.signed(byte_rows(tensor))

    def rows_at(
        self, address: int, *, num_rows: int, row_bytes: int, step_bytes: int
    ) -> KernelArray:
        """KV bytes from an address on as uint8 [num_rows, row_bytes]; rows may overlap."""
        from kvaudit.kernels.cuda_module import cuda

        description = {
            "shape": (num_rows, row_bytes),
            "strides": (step_bytes, 1),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
        return cuda.from_cuda_array_interface(description)

    def written(self, scratch: KernelArray) -> KernelArray:
        """A `hashed_output` that launches fill, as an input of those after them."""
        return scratch

    def no_reason_bits(self) -> KernelArray:
        """Reason bits that are not wanted, shape [0], uint32."""
        nothing = torch.empty(0, dtype=torch.int32, device=self._device)
        return self.signed(nothing).view(np.uint32)
