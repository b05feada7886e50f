"""A world to the findings that explain its failed rows, as an audit gives them."""

from __future__ import annotations

from kvaudit.backends.availability import choose
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.dataset import Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.observer import SilentObserver
from kvaudit.core.report import Report
from kvaudit.runner.audit import audit
from tests.helpers.worlds import World


def report_of(pools: World | Dataset, *, tokens: bool = True, **options: object) -> Report:
    """Audit a world by its sequences, or a dataset, on the CPU."""
    backend, choice = choose("cpu", kv_bytes=0, num_entries=0)
    return audit(
        pools.dataset(tokens=tokens) if isinstance(pools, World) else pools,
        backend=backend,
        choice=choice,
        options=AuditOptions(**options),
        observer=SilentObserver(),
    )


def findings_of(pools: World | Dataset, **options: object) -> list[Finding]:
    """The findings of an audit but those on coverage; every row of the report is explained."""
    report = report_of(pools, **options)
    findings = [finding for finding in report.findings if not finding.rule.startswith("KV0")]
    explained = sum(finding.evidence.get("rows", 0) for finding in findings)
    assert explained >= report.violations_total, "a row is not explained"
    return findings


def finding_of(pools: World | Dataset, **options: object) -> Finding:
    """The one finding that there is."""
    findings = findings_of(pools, **options)
    assert len(findings) == 1, [(found.rule, found.summary) for found in findings]
    return findings[0]
