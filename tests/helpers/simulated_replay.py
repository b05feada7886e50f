"""Replays a run with the CUDA kernels in numba's simulator: `python -m ... FOLDER`, a process of its own.

The simulator has no device memory: tensors stay on the host, and the device's kernels get their
memory as they would get a device's. Prints the report as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from kvaudit.backends import launch_kernels, launch_once
from kvaudit.backends.kernel_set import KernelSet, kernel_set
from kvaudit.backends.launch_arrays import HostArrays
from kvaudit.backends.launch_kernels import LaunchKernels
from kvaudit.runner.live import CanaryLaunches, launches
from tests.helpers.lanes import IN_SIMULATOR
from tests.helpers.replays import replayed, said

NUM_LAUNCHES = {"launch_verify": 0, "launch_write": 0, "launch_plan": 0}


class SimulatedArrays(HostArrays):
    """Host memory that may be written: the simulator copies every argument back."""

    def signed(self, tensor: torch.Tensor) -> np.ndarray:
        return self.signed_output(tensor)

    def hashed(self, tensor: torch.Tensor) -> np.ndarray:
        return self.hashed_output(tensor)


def counted(kernels: KernelSet) -> KernelSet:
    """The same launchers, each of whose calls is counted."""

    def count(name: str):
        launcher = getattr(kernels, name)

        def call(*arguments: object) -> None:
            NUM_LAUNCHES[name] += 1
            launcher(*arguments)

        return call

    return replace(kernels, **{name: count(name) for name in NUM_LAUNCHES})


def main() -> None:
    assert IN_SIMULATOR
    # 64 bits wrap in the simulator's numpy scalars.
    warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
    on_host = launch_kernels.device_kernels

    def simulated(device: object) -> LaunchKernels:
        return replace(
            on_host(device), kernels=counted(kernel_set("numba_cuda")), arrays=SimulatedArrays()
        )

    launch_once.device_kernels = simulated
    once = CanaryLaunches(
        verify=launches.launch.launch_canary_verify_kernel,
        write=launches.launch.launch_canary_write_kernel,
        plan=launches.launch.launch_canary_plan_kernels,
    )
    from kvaudit.runner.live import pool

    pool.device_launches = lambda: once
    report = replayed(Path(sys.argv[1]))
    json.dump({"report": said(report), "launches": NUM_LAUNCHES}, sys.stdout)


if __name__ == "__main__":
    main()
