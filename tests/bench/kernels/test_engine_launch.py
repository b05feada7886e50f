"""The engine-shaped launches mean what the contracts mean: in the simulator, and on a device."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.cuda_machine import CudaMachine
from kvaudit.bench.fold_workload import FoldWorkload
from kvaudit.bench.options import RealKv
from kvaudit.bench.plan_workload import PlanWorkload
from kvaudit.bench.verify_workload import VerifyWorkload
from kvaudit.bench.workload import Workload
from kvaudit.bench.write_workload import WriteWorkload
from tests.bench.kernels.device_lane import ON_DEVICE
from tests.helpers.bench_launches import launched
from tests.helpers.bench_pools import pool
from tests.kernels.implementations import WRAPS

pytestmark = [*ON_DEVICE, WRAPS]

# 80 bytes: four loads under way together, and one behind them.
MODES = [(RealKv.NONE, 0), (RealKv.PARTIAL, 16), (RealKv.ALL, 80)]


def _agrees(workload: Workload) -> bool:
    machine = CudaMachine()
    outputs = workload.outputs()
    placed = {
        name: machine.place(array) for name, array in {**workload.inputs(), **outputs}.items()
    }
    workload.engine_launch(placed)
    got = workload.engine_observed({name: machine.fetch(placed[name]) for name in outputs})
    wanted = workload.engine_observed(launched(workload, "reference"))
    return all(np.array_equal(got[name], array) for name, array in wanted.items())


@pytest.mark.parametrize(("real_kv", "read_bytes"), MODES[1:])
def test_engine_fold_equals_the_reference(real_kv: RealKv, read_bytes: int) -> None:
    built = pool(1024, bytes_per_token=80)
    assert _agrees(FoldWorkload(built, real_kv=real_kv, read_bytes=read_bytes))


@pytest.mark.parametrize(("real_kv", "read_bytes"), MODES)
def test_engine_verify_equals_the_reference(real_kv: RealKv, read_bytes: int) -> None:
    built = pool(1024, bytes_per_token=80)
    assert _agrees(VerifyWorkload.of(built, real_kv=real_kv, read_bytes=read_bytes))


@pytest.mark.parametrize(("real_kv", "read_bytes"), MODES)
def test_engine_write_equals_the_reference(real_kv: RealKv, read_bytes: int) -> None:
    built = pool(1024, bytes_per_token=80)
    assert _agrees(WriteWorkload.of(built, real_kv=real_kv, read_bytes=read_bytes))


def test_engine_plan_equals_the_reference() -> None:
    assert _agrees(PlanWorkload.of(pool(5000, bytes_per_token=80)))
