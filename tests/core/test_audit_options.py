"""The defaults of an audit."""

from __future__ import annotations

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.finding import Severity


def test_by_default_all_of_what_is_planned_must_be_checked_and_errors_fail() -> None:
    options = AuditOptions()
    assert options.require is None
    assert options.min_coverage == 100.0
    assert options.fail_on is Severity.ERROR
    assert not options.skip_bytes
    assert not options.exit_zero
