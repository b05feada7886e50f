from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvaudit.backends.availability import BackendStatus
from kvaudit.bench import run
from kvaudit.bench.options import BenchOptions, Op, RealKv
from kvaudit.bench.run import run_bench
from kvaudit.core.bench_report import BenchReport
from kvaudit.core.report import Report
from kvaudit.errors import ConfigError, NoDevice
from tests.helpers.bench_pools import options
from tests.helpers.command_line import python
from tests.helpers.watcher import Watcher


def _no_files(paths: Sequence[Path], *, backend: str, slots: Any = None) -> Report:
    raise AssertionError(paths, backend, slots)


def _run(asked: BenchOptions, backend: str = "cpu", watcher: Watcher | None = None) -> BenchReport:
    return run_bench(asked, backend=backend, audit_files=_no_files, observer=watcher or Watcher())


def test_every_operation_has_a_row_a_size_and_mode_in_order() -> None:
    watcher = Watcher()
    report = _run(options(sizes=(1024, 2048)), watcher=watcher)
    a_size = [
        ("fold", "all"),
        ("verify", "none"),
        ("verify", "all"),
        ("write", "none"),
        ("write", "all"),
        ("plan", None),
    ]
    assert [(row.op, row.real_kv) for row in report.rows] == a_size * 2
    assert [row.num_entries for row in report.rows] == [1024] * 6 + [2048] * 6
    assert watcher.stages["bench"] == (12, 12)


def test_the_report_says_on_what_and_how_it_ran() -> None:
    report = _run(options(ops=(Op.PLAN,)))
    assert report.backend.name == "cpu"
    assert report.command == options(ops=(Op.PLAN,)).command("cpu")
    assert {"system", "processor", "kvaudit", "python", "numpy", "numba"} <= set(report.machine)
    assert report.settings["repeats"] == 1
    assert "wall clock" in report.timed_by


def test_the_reference_is_measured_too_and_judged_by_the_cpu() -> None:
    report = _run(options(sizes=(1024,), ops=(Op.FOLD, Op.PLAN)), backend="reference")
    assert [row.proof.cpu_entries for row in report.rows] == [1024, 1024]


def test_auto_takes_the_best_that_runs_and_says_why_no_better_one_did(monkeypatch) -> None:
    monkeypatch.setattr(
        run,
        "survey",
        lambda: [
            BackendStatus("cuda", False, "", "no driver"),
            BackendStatus("cpu", True, "CPU", ""),
        ],
    )
    report = _run(options(ops=(Op.PLAN,)), backend="auto")
    assert report.backend.name == "cpu"
    assert report.backend.reason == "the best that runs here; cuda did not run: no driver"
    assert "--backend cpu" in report.command


def test_a_named_backend_is_a_demand(monkeypatch) -> None:
    def none() -> str:
        raise NoDevice("none")

    monkeypatch.setattr(run, "choose", lambda *_args, **_kwargs: none())
    with pytest.raises(NoDevice):
        _run(options(), backend="cuda")


def test_what_has_nothing_to_measure_is_left_out_by_name() -> None:
    asked = options(ops=(Op.FOLD, Op.PLAN), real_kv=(RealKv.NONE,))
    report = _run(asked)
    assert [row.op for row in report.rows] == ["plan"]
    assert report.left_out[0].startswith("fold: ")
    with pytest.raises(ConfigError, match="nothing to measure: fold"):
        _run(options(ops=(Op.FOLD,), real_kv=(RealKv.NONE,)))
    with pytest.raises(ConfigError, match="nothing to measure: dump"):
        _run(options(ops=(Op.DUMP,)), backend="reference")


def test_sizes_that_do_not_fit_are_refused_before_anything_runs() -> None:
    watcher = Watcher()
    with pytest.raises(ConfigError, match="--sizes 1g"):
        _run(options(sizes=(1 << 30,), bytes_per_token=1 << 20), watcher=watcher)
    assert not watcher.stages


def test_the_cpu_is_measured_where_numba_cuda_cannot_be_imported() -> None:
    code = (
        "import sys\nsys.modules['numba.cuda'] = None\n"
        "from kvaudit.cli.entry import run\n"
        "sys.exit(run(['bench', '--sizes', '1k', '--backend', 'cpu', '--repeats', '1', '-q']))"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert "verify" in done.stdout
