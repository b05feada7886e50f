from __future__ import annotations

from kvaudit import api
from tests.helpers import bench_pools
from tests.helpers.watcher import Watcher


def test_a_benchmark_audits_its_files_as_a_user_does() -> None:
    watcher = Watcher()
    options = bench_pools.options(ops=("file", "plan"), sizes=(1024,))
    report = api.bench(options, backend="cpu", observer=watcher)
    assert [row.op for row in report.rows] == ["file", "plan"]
    assert watcher.stages["bench"] == (2, 2)
