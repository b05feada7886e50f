"""One row of a benchmark: proof on the very input, then the time of that launch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.bench.machine import Direction, HostMachine, Machine, wall_seconds
from kvaudit.bench.options import size_label
from kvaudit.bench.workload import HostArrays, PlacedArrays, Workload
from kvaudit.core.bench_report import BenchRow, Proof, Yardstick
from kvaudit.errors import ProofFailed
from kvaudit.kernels.array_forms import KernelArray

# What to do with a run whose proof failed.
DISTRUST: Final = "no figure of this run can be trusted: please report the command"
# The engine-shaped launch may take a hundred times as long.
_MAX_ENGINE_REPEATS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bench:
    """What the rows of one run share.

    Fields:
        machine: what is timed.
        backend: its name: cuda, cpu or reference.
        repeats: how often a launch is timed.
        yardsticks: bandwidths measured so far, by direction and bytes.
    """

    machine: Machine
    backend: str
    repeats: int
    yardsticks: dict[tuple[Direction, int], Yardstick] = field(default_factory=dict)

    def yardstick(self, direction: Direction, num_bytes: int) -> Yardstick:
        """The bandwidth over so many bytes, measured once a run."""
        key = (direction, num_bytes)
        if key not in self.yardsticks:
            self.yardsticks[key] = self.machine.yardstick(direction, num_bytes)
        return self.yardsticks[key]


def measured(bench: Bench, workload: Workload, *, placed: Mapping[str, KernelArray]) -> BenchRow:
    """Prove a workload, then time it.

    Args:
        bench: the run.
        workload: what to measure.
        placed: inputs that several workloads share, where the machine has them.

    Raises:
        ProofFailed: two implementations disagree on this input.
    """
    machine = bench.machine
    inputs = {
        name: placed[name] if name in placed else machine.place(array)
        for name, array in workload.inputs().items()
    }
    arrays = {**inputs, **_placed_outputs(machine, workload)}
    outputs = _launched(machine, workload, arrays)
    proof, reference_seconds = _proved(bench, workload, outputs)
    seconds = machine.seconds(lambda: workload.launch(machine, arrays), repeats=bench.repeats)
    num_engine_entries, engine_seconds = None, None
    if machine.is_device:
        num_engine_entries = workload.num_entries
        engine_seconds = _engine_seconds(bench, workload, inputs=inputs, outputs=outputs)
    return BenchRow(
        op=workload.op,
        real_kv=workload.real_kv,
        num_entries=workload.num_entries,
        bytes_per_entry=workload.bytes_per_entry,
        seconds=seconds,
        median=statistics.median(seconds),
        yardstick=bench.yardstick(
            workload.direction, workload.num_entries * workload.bytes_per_entry
        ),
        engine_seconds=engine_seconds,
        reference_seconds_per_entry=(
            None if bench.backend == "reference" else reference_seconds / proof.reference_entries
        ),
        proof=Proof(
            reference_entries=proof.reference_entries,
            cpu_entries=proof.cpu_entries,
            engine_entries=num_engine_entries,
        ),
    )


def _proved(bench: Bench, workload: Workload, outputs: HostArrays) -> tuple[Proof, float]:
    """The proof of a launch's outputs, and the seconds that the reference took for its part."""
    num_cpu_entries = None
    if bench.backend != "cpu":
        num_cpu_entries = workload.num_entries
        cpu_outputs, _ = _host_outputs(HostMachine("numba_cpu"), workload)
        got, wanted = workload.observed(outputs), workload.observed(cpu_outputs)
        compare(workload, got, wanted, judge="the CPU's kernels")
    if bench.backend == "reference":
        whole = Proof(reference_entries=workload.num_entries, cpu_entries=num_cpu_entries)
        return whole, 0.0
    sample = workload.sample()
    reference_outputs, reference_seconds = _host_outputs(HostMachine("reference"), sample.workload)
    got = sample.expected(outputs)
    wanted = sample.workload.observed(reference_outputs)
    compare(workload, got, {name: wanted[name] for name in got}, judge="the reference")
    proof = Proof(reference_entries=sample.workload.num_entries, cpu_entries=num_cpu_entries)
    return proof, reference_seconds


def _engine_seconds(
    bench: Bench, workload: Workload, *, inputs: PlacedArrays, outputs: HostArrays
) -> float:
    """Median of the engine-shaped launch, once it is proved."""
    machine = bench.machine
    arrays = {**inputs, **_placed_outputs(machine, workload)}
    workload.engine_launch(arrays)
    got = workload.engine_observed(_fetched(machine, workload, arrays))
    compare(workload, got, workload.engine_observed(outputs), judge="the launch under test")
    repeats = min(bench.repeats, _MAX_ENGINE_REPEATS)
    seconds = machine.seconds(lambda: workload.engine_launch(arrays), repeats=repeats)
    return statistics.median(seconds)


def compare(workload: Workload, got: HostArrays, wanted: HostArrays, *, judge: str) -> None:
    """Refuse the first difference between two launches of one input.

    Raises:
        ProofFailed: naming operation, size, array and place.
    """
    for name, expected in wanted.items():
        actual = got[name]
        if actual.shape == expected.shape and np.array_equal(actual, expected):
            continue
        mode = f" --real-kv {workload.real_kv}" if workload.real_kv is not None else ""
        raise ProofFailed(
            f"{workload.op}{mode} of {size_label(workload.num_entries)} entries differs from "
            f"{judge}: {name} {_difference(actual, expected)}",
            hint=DISTRUST,
        )


def _difference(actual: NDArray[Any], expected: NDArray[Any]) -> str:
    if actual.shape != expected.shape:
        return f"has shape {list(actual.shape)}, not {list(expected.shape)}"
    place = tuple(int(axis) for axis in np.argwhere(actual != expected)[0])
    return f"holds {actual[place]} at {list(place)}, not {expected[place]}"


def _placed_outputs(machine: Machine, workload: Workload) -> dict[str, KernelArray]:
    return {
        name: machine.place(array, writeable=True) for name, array in workload.outputs().items()
    }


def _fetched(machine: Machine, workload: Workload, arrays: PlacedArrays) -> HostArrays:
    """The outputs of a launch as they are now, which later launches do not touch."""
    return {name: np.array(machine.fetch(arrays[name])) for name in workload.outputs()}


def _launched(machine: Machine, workload: Workload, arrays: PlacedArrays) -> HostArrays:
    workload.launch(machine, arrays)
    return _fetched(machine, workload, arrays)


def _host_outputs(machine: HostMachine, workload: Workload) -> tuple[HostArrays, float]:
    """The outputs of one launch on the host, and its seconds."""
    outputs = workload.outputs()
    inputs = {name: machine.place(array) for name, array in workload.inputs().items()}
    [seconds] = wall_seconds(lambda: workload.launch(machine, {**inputs, **outputs}), repeats=1)
    return outputs, seconds
