"""Measurements of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvaudit.api.audits import audit
from kvaudit.api.audits import open as open_dumps
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.observer import RunObserver, SilentObserver

if TYPE_CHECKING:
    from kvaudit.bench.options import BenchOptions
    from kvaudit.core.bench_report import BenchReport
    from kvaudit.core.layout import SlotRanges
    from kvaudit.core.report import Report


def bench(
    options: BenchOptions, *, backend: str = "auto", observer: RunObserver | None = None
) -> BenchReport:
    """Measure the kernels, and jobs as users run them; each row is proved before it is timed.

    Args:
        options: operations, sizes and the shape of the pool.
        backend: `auto`, `cuda`, `cpu` or `reference`; a named one is a demand.
        observer: told of progress; None = nobody.

    Raises:
        ConfigError: the sizes do not fit this machine, or nothing is left to measure.
        BackendError: a demanded backend cannot run, torch is missing, or the device failed.
        InputError: the temporary folder cannot be written to.
        ProofFailed: two implementations disagree on an input that was to be timed.
    """
    from kvaudit.backends.cuda_device import numba_imports_translated

    with numba_imports_translated():
        from kvaudit.bench.run import run_bench

    def audit_files(
        paths: Sequence[Path], *, backend: str, slots: SlotRanges | None = None
    ) -> Report:
        return audit(open_dumps(paths), backend=backend, options=AuditOptions(slots=slots))

    return run_bench(
        options,
        backend=backend,
        audit_files=audit_files,
        observer=SilentObserver() if observer is None else observer,
    )
