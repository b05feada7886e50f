"""Files on disk to a Report, as `verify` does it, on the CPU."""

from __future__ import annotations

from pathlib import Path

from kvaudit.backends.availability import choose
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.coverage import Family
from kvaudit.core.observer import SilentObserver
from kvaudit.core.report import Report
from kvaudit.formats.dataset import open_dataset
from kvaudit.runner.audit import audit


def audited(*paths: str | Path) -> Report:
    """Audit files or folders with default options."""
    backend, choice = choose("cpu", kv_bytes=1, num_entries=1)
    return audit(
        open_dataset([str(path) for path in paths]),
        backend=backend,
        choice=choice,
        options=AuditOptions(),
        observer=SilentObserver(),
    )


def assert_all_covered(report: Report, *families: Family) -> None:
    """Each of the families had something to check, and all of it was checked."""
    for family in families:
        covered = report.coverage.families[family]
        assert covered is not None, family
        assert covered.due > 0, family
        assert covered.ratio == 1.0, family


def bad_slots(report: Report) -> set[int]:
    """The slots of all violation rows."""
    return {row.slot for row in report.violations}


def bad_columns(report: Report) -> set[str]:
    """The columns of all violation rows."""
    return {column for row in report.violations for column in row.columns}
