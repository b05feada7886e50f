"""Launches of a workload on the host, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kvaudit.bench.machine import HostMachine
from kvaudit.bench.measurement import Bench
from kvaudit.bench.workload import Workload


def launched(workload: Workload, implementation: Any = "numba_cpu") -> dict[str, np.ndarray]:
    """The outputs of one launch."""
    machine = HostMachine(implementation)
    outputs = workload.outputs()
    inputs = {name: machine.place(array) for name, array in workload.inputs().items()}
    workload.launch(machine, {**inputs, **outputs})
    return outputs


def sample_agrees(workload: Workload) -> bool:
    """Whether the reference on the sample gives what the CPU gives on the whole."""
    sample = workload.sample()
    expected = sample.expected(launched(workload))
    observed = sample.workload.observed(launched(sample.workload, "reference"))
    return all(np.array_equal(observed[name], array) for name, array in expected.items())


def bench_with(
    launcher: str | None = None, spoil: Callable[..., None] | None = None, **changes: Any
) -> Bench:
    """A run on the CPU's kernels, one of which spoils its arguments after each launch."""
    machine = HostMachine("numba_cpu")
    if launcher is not None:
        right = getattr(machine.kernels, launcher)

        def wrong(*arguments: Any) -> None:
            right(*arguments)
            spoil(*arguments)

        machine.kernels = replace(machine.kernels, **{launcher: wrong})
    return Bench(**{"machine": machine, "backend": "cpu", "repeats": 2, **changes})
