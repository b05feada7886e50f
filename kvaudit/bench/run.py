"""A whole benchmark: backend, room, then each size with its operations."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

from kvaudit import __version__
from kvaudit.backends.availability import AUTO, choose, survey
from kvaudit.backends.cuda_errors import cuda_errors_translated
from kvaudit.bench.dump_job import check_torch, measured_dump
from kvaudit.bench.file_job import AuditFiles, measured_file
from kvaudit.bench.fold_workload import FoldWorkload
from kvaudit.bench.machine import HostMachine, Machine
from kvaudit.bench.measurement import Bench, measured
from kvaudit.bench.options import MODAL_OPS, BenchOptions, Op, RealKv
from kvaudit.bench.plan_workload import PlanWorkload
from kvaudit.bench.pool import BenchPool, build_pool
from kvaudit.bench.room import check_room
from kvaudit.bench.storm_workload import StormWorkload
from kvaudit.bench.verify_workload import VerifyWorkload
from kvaudit.bench.workload import Workload
from kvaudit.bench.write_workload import WriteWorkload
from kvaudit.core.backend import Backend
from kvaudit.core.bench_report import BenchReport, BenchRow
from kvaudit.core.observer import RunObserver
from kvaudit.core.report import BackendChoice
from kvaudit.errors import ConfigError
from kvaudit.kernels.row_threads import num_threads
from kvaudit.runner.self_check import prepare

_PACKAGES: Final = ("numpy", "numba", "numba-cuda", "pyarrow", "torch")
_ON_DEVICE: Final = (
    "launches by CUDA events with L2 overwritten before each, file by its report, which leaves the "
    "device's start out, dump by the wall clock"
)
_ON_HOST: Final = "the wall clock, after one run that is not timed; file by its report"
_FOLD_LEFT_OUT: Final = "fold: --real-kv none leaves it nothing to read"
_DUMP_LEFT_OUT: Final = "dump: digests are made by cuda or cpu, never by the reference"


def run_bench(
    options: BenchOptions, *, backend: str, audit_files: AuditFiles, observer: RunObserver
) -> BenchReport:
    """Measure every operation at every size.

    Args:
        options: what to measure.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        audit_files: how a user audits files, for the operation `file`.
        observer: told of progress.

    Raises:
        ConfigError: the sizes do not fit, or nothing is left to measure.
        BackendError: the backend cannot run, torch is missing for `dump`, or the device failed.
        ProofFailed: two implementations disagree on an input.
    """
    chosen, choice = _chosen(backend)
    ops, left_out = _runnable(options, choice.name)
    options = replace(options, ops=ops)
    if Op.DUMP in ops:
        check_torch(choice.name)
    with cuda_errors_translated():
        machine = _machine(choice.name)
        check_room(options, machine, backend=choice.name)
        prepare(chosen, observer, writes=True)
        bench = Bench(machine=machine, backend=choice.name, repeats=options.repeats)
        rows = []
        observer.stage("bench", len(options.sizes) * len(list(_cases(options))))
        for size in options.sizes:
            for row in _rows(bench, options, build_pool(options, size), audit_files=audit_files):
                rows.append(row)
                observer.advance(1)
    return BenchReport(
        command=options.command(choice.name),
        backend=choice,
        machine=_machine_facts(),
        settings={
            "bytes_per_token": options.bytes_per_token,
            "layers": options.layers,
            "page_size": options.page_size,
            "request_tokens": options.request_tokens,
            "repeats": options.repeats,
            "seed": options.seed,
        },
        timed_by=_ON_DEVICE if machine.is_device else _ON_HOST,
        rows=rows,
        left_out=left_out,
    )


def _chosen(name: str) -> tuple[Backend, BackendChoice]:
    """The backend asked for, or the best that can run: nothing here is copied to a device."""
    reason = "asked for by name"
    if name == AUTO:
        statuses = survey()
        name = next(status.name for status in statuses if status.usable)
        failed = [status for status in statuses if not status.usable]
        parts = [f"{status.name} did not run: {status.reason}" for status in failed]
        reason = "; ".join(["the best that runs here", *parts])
    backend, choice = choose(name, kv_bytes=0, num_entries=0)
    return backend, replace(choice, reason=reason)


def _machine(backend: str) -> Machine:
    if backend == "cuda":
        from kvaudit.bench.cuda_machine import CudaMachine

        return CudaMachine()
    return HostMachine("reference" if backend == "reference" else "numba_cpu")


def _runnable(options: BenchOptions, backend: str) -> tuple[list[Op], list[str]]:
    """The operations that have something to measure, and why the others have not."""
    reasons = {}
    if set(options.real_kv) == {RealKv.NONE}:
        reasons[Op.FOLD] = _FOLD_LEFT_OUT
    if backend == "reference":
        reasons[Op.DUMP] = _DUMP_LEFT_OUT
    ops = [op for op in options.ops if op not in reasons]
    left_out = [reasons[op] for op in options.ops if op in reasons]
    if not ops:
        raise ConfigError(f"nothing to measure: {'; '.join(left_out)}", hint="name other --op")
    return ops, left_out


def _cases(options: BenchOptions) -> Iterator[tuple[Op, RealKv | None]]:
    """Each operation with each of its modes."""
    for op in options.ops:
        for mode in options.real_kv if op in MODAL_OPS else (None,):
            if (op, mode) != (Op.FOLD, RealKv.NONE):
                yield op, mode


def _rows(
    bench: Bench, options: BenchOptions, pool: BenchPool, *, audit_files: AuditFiles
) -> Iterator[BenchRow]:
    """The rows of one size."""
    placed = {"source_bytes": bench.machine.place(pool.kv)}
    for op, mode in _cases(options):
        if op == Op.FILE:
            yield measured_file(bench, pool, audit_files=audit_files)
        elif op == Op.DUMP:
            yield measured_dump(bench, pool)
        else:
            yield measured(bench, _workload(pool, op=op, mode=mode, options=options), placed=placed)


def _workload(pool: BenchPool, *, op: Op, mode: RealKv | None, options: BenchOptions) -> Workload:
    if op == Op.STORM:
        return StormWorkload.of(pool, real_kv=RealKv.NONE, read_bytes=0)
    if mode is None:
        return PlanWorkload.of(pool)
    build: dict[Op, Callable[..., Workload]] = {
        Op.FOLD: partial(FoldWorkload, pool),
        Op.VERIFY: partial(VerifyWorkload.of, pool),
        Op.WRITE: partial(WriteWorkload.of, pool),
    }
    return build[op](real_kv=mode, read_bytes=options.read_bytes(mode))


def _machine_facts() -> dict[str, str]:
    facts = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": f"{_processor()}, {num_threads()} threads",
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
        "kvaudit": __version__,
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())
