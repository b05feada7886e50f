from __future__ import annotations

import pytest
import torch

from kvaudit.backends import launch_fold
from kvaudit.backends.kernel_set import KernelSet
from kvaudit.backends.launch_arrays import CudaArrays, HostArrays
from kvaudit.backends.launch_kernels import device_kernels, on_torch_stream
from kvaudit.errors import BackendError


@pytest.mark.parametrize(
    ("device", "module", "arrays"),
    [("cpu", "numba_cpu", HostArrays), ("cuda", "numba_cuda", CudaArrays)],
)
def test_the_device_of_the_tensors_picks_the_kernels(
    device: str, module: str, arrays: type
) -> None:
    chosen = device_kernels(torch.device(device))
    modules = {getattr(chosen.kernels, name).__module__ for name in KernelSet.__slots__}
    assert {name.split(".")[-1].removesuffix("_pieces") for name in modules} == {module}
    assert isinstance(chosen.arrays, arrays)
    assert chosen.bind_fold is launch_fold.bind_fold


def test_tensors_without_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="meta"), on_torch_stream(torch.device("meta")):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_cuda_device_that_is_not_there_is_told_as_such() -> None:
    with pytest.raises(BackendError), on_torch_stream(torch.device("cuda", 0)):
        pass
