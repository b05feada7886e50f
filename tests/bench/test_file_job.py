from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvaudit import api
from kvaudit.bench.file_job import measured_file
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.report import Report
from kvaudit.errors import ProofFailed
from tests.helpers.bench_launches import bench_with
from tests.helpers.bench_pools import NUM_ENTRIES, pool


def _audit(paths: Sequence[Path], *, backend: str, slots: Any = None) -> Report:
    return api.audit(api.open(paths), backend=backend, options=AuditOptions(slots=slots))


def test_a_file_is_proved_and_timed_and_nothing_of_it_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    built = pool(layers=3)
    before = built.kv.copy()
    reports = []

    def audit(*args: Any, **arguments: Any) -> Report:
        reports.append(_audit(*args, **arguments))
        return reports[-1]

    row = measured_file(bench_with(), built, audit_files=audit)
    assert (row.op, row.num_entries, row.bytes_per_entry) == ("file", NUM_ENTRIES, 3 * 64)
    assert reports[-1].timing.kv_bytes == NUM_ENTRIES * 3 * 64
    assert row.seconds == [report.timing.seconds for report in reports[-2:]]
    assert row.proof.reference_entries == NUM_ENTRIES
    assert row.yardstick.name == "host read"
    assert len(row.seconds) == 2
    np.testing.assert_array_equal(built.kv, before)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("backend", "judge"), [("cpu", "the reference"), ("reference", "the CPU's kernels")]
)
def test_a_report_of_other_rows_is_refused(backend: str, judge: str) -> None:
    def audit(paths: Sequence[Path], *, backend: str, slots: Any = None) -> Report:
        report = _audit(paths, backend=backend, slots=slots)
        if backend != run:
            return report
        return replace(report, violations=[replace(row, position=7) for row in report.violations])

    run = backend
    with pytest.raises(ProofFailed, match=judge):
        measured_file(bench_with(backend=backend), pool(), audit_files=audit)


def test_a_report_without_the_flipped_bits_is_refused() -> None:
    def audit(paths: Sequence[Path], **arguments: Any) -> Report:
        return replace(_audit(paths, **arguments), violations=())

    with pytest.raises(ProofFailed, match="what was damaged"):
        measured_file(bench_with(), pool(), audit_files=audit)
