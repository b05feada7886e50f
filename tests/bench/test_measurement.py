from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvaudit.bench.fold_workload import FoldWorkload
from kvaudit.bench.machine import HostMachine
from kvaudit.bench.measurement import compare, measured
from kvaudit.bench.options import RealKv
from kvaudit.bench.plan_workload import PlanWorkload
from kvaudit.bench.verify_workload import VerifyWorkload
from kvaudit.bench.workload import Workload
from kvaudit.bench.write_workload import WriteWorkload
from kvaudit.core.bench_report import Yardstick
from kvaudit.errors import ProofFailed
from tests.helpers.bench_launches import bench_with
from tests.helpers.bench_pools import pool

MODE = {"real_kv": RealKv.ALL, "read_bytes": 64}
BUILD = {
    "fold": lambda: FoldWorkload(pool(), **MODE),
    "verify": lambda: VerifyWorkload.of(pool(), **MODE),
    "write": lambda: WriteWorkload.of(pool(), **MODE),
    "plan": lambda: PlanWorkload.of(pool()),
}


def _flip(array: np.ndarray) -> None:
    array[len(array) // 2] ^= array.dtype.type(1)


# The position of an output among the arguments of a launcher, and what it is.
SPOILT = [
    ("fold", "launch_fold", 2, "hash"),
    ("verify", "launch_verify", 8, "reason bits"),
    ("verify", "launch_verify", 9, "row"),
    ("verify", "launch_fold_source", 4, "combined hash"),
    ("write", "launch_write", 10, "record"),
    ("write", "launch_write", 12, "number of rows"),
    ("plan", "launch_plan", 7, "slot"),
    ("plan", "launch_plan", 8, "token"),
]


@pytest.mark.parametrize("op", BUILD)
def test_a_right_launch_is_proved_and_timed(op: str) -> None:
    row = measured(bench_with(), BUILD[op](), placed={})
    assert (row.op, row.num_entries) == (op, 2048)
    assert row.proof.reference_entries == 2048
    assert row.proof.cpu_entries is None
    assert len(row.seconds) == 2
    assert row.median > 0
    assert row.reference_speedup > 1
    assert row.engine_speedup is None


@pytest.mark.parametrize(
    ("op", "launcher", "argument", "what"), SPOILT, ids=lambda each: str(each).replace(" ", "-")
)
def test_one_wrong_value_stops_the_run_before_anything_is_timed(
    op: str, launcher: str, argument: int, what: str
) -> None:
    def spoil(*arguments: Any) -> None:
        if what == "row":
            arguments[argument][0] ^= np.uint64(1)
        else:
            _flip(arguments[argument])

    bench = bench_with(launcher, spoil)
    with pytest.raises(ProofFailed, match=f"^{op}.* of 2k entries differs from the reference"):
        measured(bench, BUILD[op](), placed={})
    assert not bench.yardsticks


def test_a_launch_that_is_not_the_cpus_is_compared_with_it_in_full() -> None:
    workload = BUILD["fold"]()
    row = measured(bench_with(backend="reference", repeats=1), workload, placed={})
    assert row.proof.cpu_entries == row.proof.reference_entries == 2048
    assert row.reference_speedup is None
    with pytest.raises(ProofFailed, match="the CPU's kernels"):
        measured(
            bench_with("launch_fold", lambda *a: _flip(a[2]), backend="cuda"), workload, placed={}
        )


def test_inputs_that_workloads_share_are_placed_once() -> None:
    workload, machine = BUILD["fold"](), HostMachine("numba_cpu")
    taken = []

    def place(array: np.ndarray, *, writeable: bool = False) -> np.ndarray:
        taken.append(array)
        return HostMachine.place(machine, array, writeable=writeable)

    bench = bench_with()
    bench.machine.place = place
    source = workload.inputs()["source_bytes"]
    measured(bench, workload, placed={"source_bytes": source})
    assert all(array is not source for array in taken)


def test_a_bandwidth_is_measured_once_a_run() -> None:
    bench = bench_with()
    first = bench.yardstick("read", 1 << 20)
    assert bench.yardstick("read", 1 << 20) is first
    assert isinstance(bench.yardstick("write", 1 << 20), Yardstick)


def _compare(got: list[int], wanted: list[int], workload: Workload) -> None:
    compare(
        workload, {"hashes": np.array(got)}, {"hashes": np.array(wanted)}, judge="the reference"
    )


def test_a_difference_names_operation_array_place_and_both_values() -> None:
    workload = BUILD["verify"]()
    _compare([1, 2, 3], [1, 2, 3], workload)
    with pytest.raises(ProofFailed) as raised:
        _compare([1, 2, 3], [1, 5, 3], workload)
    assert str(raised.value) == (
        "verify --real-kv all of 2k entries differs from the reference: "
        "hashes holds 2 at [1], not 5"
    )
    with pytest.raises(ProofFailed, match=r"has shape \[2\], not \[3\]"):
        _compare([1, 2], [1, 2, 3], workload)
