from __future__ import annotations

import pytest
import torch

from kvaudit.backends.kernel_set import KernelSet
from kvaudit.backends.launch_kernels import device_kernels, reference_kernels
from kvaudit.errors import BackendError

HOST = torch.device("cpu")


def test_host_tensors_run_on_the_cpu_kernels() -> None:
    with device_kernels(HOST) as (kernels, _):
        modules = {getattr(kernels, name).__module__ for name in KernelSet.__slots__}
    assert {module.split(".")[-1] for module in modules} == {"numba_cpu"}


def test_the_twins_run_on_the_reference_kernels() -> None:
    with reference_kernels(HOST) as (kernels, _):
        modules = {getattr(kernels, name).__module__ for name in KernelSet.__slots__}
    assert {module.split(".")[-1] for module in modules} == {"reference"}


def test_tensors_without_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="meta"), device_kernels(torch.device("meta")):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_cuda_device_that_is_not_there_is_told_as_such() -> None:
    with pytest.raises(BackendError), device_kernels(torch.device("cuda", 0)):
        pass
