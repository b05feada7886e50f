"""The audits of tests/runner run on every backend of the host: none may be skipped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvaudit.backends.availability import choose
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.dataset import Dataset
from kvaudit.core.observer import SilentObserver
from kvaudit.core.report import Report
from kvaudit.runner.audit import audit

Run = Callable[..., Report]


@pytest.fixture(params=["reference", "cpu"])
def run(request: pytest.FixtureRequest) -> Run:
    """Audit a dataset on one backend."""

    def run_audit(dataset: Dataset, **options: object) -> Report:
        backend, choice = choose(request.param, kv_bytes=0, num_entries=0)
        assert backend.name == request.param
        return audit(
            dataset,
            backend=backend,
            choice=choice,
            options=AuditOptions(**options),
            observer=SilentObserver(),
        )

    return run_audit
