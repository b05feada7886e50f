"""On a device: `pytest -m gpu`. `tests/bench/kernels` has the same in the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.bench.cuda_machine import CudaMachine
from kvaudit.bench.options import Op
from kvaudit.bench.run import run_bench
from kvaudit.kernels.cuda_module import SIMULATED, cuda
from tests.helpers.bench_pools import options
from tests.helpers.watcher import Watcher

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(SIMULATED or not cuda.is_available(), reason="no CUDA device"),
]


def test_arrays_go_to_the_device_and_come_back() -> None:
    machine = CudaMachine()
    words = np.arange(1000, dtype=np.uint64)
    placed = machine.place(words, writeable=True)
    np.testing.assert_array_equal(machine.fetch(placed), words)
    machine.zero(placed)
    assert not machine.fetch(placed).any()
    assert machine.free_bytes() > 1 << 20


def test_time_is_the_devices_and_grows_with_the_work() -> None:
    machine = CudaMachine()
    small, large = (cuda.device_array(n, dtype=np.uint64) for n in (1 << 10, 1 << 25))
    machine.zero(small)
    quick = min(machine.seconds(lambda: machine.zero(small), repeats=5))
    slow = min(machine.seconds(lambda: machine.zero(large), repeats=5))
    assert 0 < quick < slow < 1


def test_reading_is_at_least_as_fast_as_a_copy_that_reads_and_writes() -> None:
    machine = CudaMachine()
    source, target = (cuda.device_array(1 << 26, dtype=np.uint64) for _ in range(2))
    machine.zero(source)
    copying = min(machine.seconds(lambda: target.copy_to_device(source), repeats=5))
    assert machine.yardstick("read", 1 << 29).gb_per_s > source.nbytes / copying / 1e9


@pytest.mark.parametrize("page_size", [1, 16])
def test_every_launch_is_proved_against_cpu_reference_and_engine(page_size: int) -> None:
    asked = options(sizes=(1 << 16,), bytes_per_token=256, page_size=page_size, request_tokens=4096)
    report = run_bench(asked, backend="cuda", audit_files=None, observer=Watcher())
    for row in report.rows:
        assert row.proof.cpu_entries == row.proof.engine_entries == 1 << 16
        assert row.proof.reference_entries >= 4096
        assert row.engine_speedup > 0
    assert {row.op for row in report.rows} == {Op.FOLD, Op.VERIFY, Op.WRITE, Op.PLAN}
