"""Proof that this installation finds every fault class: each is injected, and must be named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.backend import Backend
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.observer import RunObserver, SilentObserver
from kvaudit.core.report import BackendChoice, Report, Verdict
from kvaudit.runner.audit import audit
from kvaudit.runner.inject import FAULT_CLASSES, FaultClass, inject
from kvaudit.runner.self_test_comparisons import (
    DIVERGENCE_CLASSES,
    DivergenceClass,
    divergence_problem,
)
from kvaudit.runner.self_test_pools import self_test_pools

# Places that each class is put into.
_SEEDS: Final = range(3)

_POOL_OF: Final = {
    "KV103": "planned",
    "KV105": "allocated",
    "KV106": "allocated",
    "KV107": "allocated",
    "KV108": "allocated",
    "KV210": "layer0",
    "KV211": "layer0",
    "KV305": "layers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestRow:
    """What became of one fault class.

    Fields:
        fault: the class: of one pool, or of two dumps of one.
        problem: what an audit said instead; "" if it found every one.
    """

    fault: FaultClass | DivergenceClass
    problem: str

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON values, and as a line of a table."""
        return {
            "fault": self.fault.name,
            "rule": self.fault.rule,
            "result": f"FAILED: {self.problem}" if self.problem else "OK",
        }


def self_test(
    backend: Backend, choice: BackendChoice, *, observer: RunObserver
) -> list[SelfTestRow]:
    """Put every fault class into a small pool, at several places, and audit or compare each copy.

    Args:
        backend: what computes.
        choice: which backend that is.
        observer: told of progress.

    Returns:
        a row a class: named by its rule alone, with its slots and requests, or not.

    Raises:
        BackendError: the backend failed while it ran.
        SelfCheckFailed: the backend missed a planted bad entry.
    """
    pools = self_test_pools(backend)
    wrong = {name: _wrong_in_clean(pool, backend, choice) for name, pool in pools.items()}
    observer.stage("self-test", len(FAULT_CLASSES) + len(DIVERGENCE_CLASSES))
    rows = []
    for fault in FAULT_CLASSES:
        name = _POOL_OF.get(fault.rule, "stamped")
        problem = wrong[name] or _problem(pools[name], fault, backend=backend, choice=choice)
        rows.append(SelfTestRow(fault=fault, problem=problem))
        observer.advance(1)
    for divergence in DIVERGENCE_CLASSES:
        problem = divergence_problem(
            pools["layers"], divergence, seeds=_SEEDS, backend=backend, choice=choice
        )
        rows.append(SelfTestRow(fault=divergence, problem=problem))
        observer.advance(1)
    return rows


def _wrong_in_clean(pool: AuditedPool, backend: Backend, choice: BackendChoice) -> str:
    report = _audit(pool, backend, choice)
    if report.findings or report.verdict is not Verdict.CLEAN:
        return f"the clean pool has {_named(report.findings)}"
    return ""


def _problem(
    pool: AuditedPool, fault: FaultClass, *, backend: Backend, choice: BackendChoice
) -> str:
    for seed in _SEEDS:
        injection = inject(pool, fault.name, seed=seed)
        report = _audit(injection.pool, backend, choice)
        if [finding.rule for finding in report.findings] != [fault.rule]:
            return f"with seed {seed} an audit names {_named(report.findings)}"
        found = report.findings[0]
        if not set(injection.damage.slots) <= set(found.slots):
            return f"with seed {seed} in slots {injection.damage.slots} it is in {found.slots}"
        asked = list(injection.damage.request_ids)
        if set(asked) != set(found.request_ids):
            return f"with seed {seed} in requests {asked} it is in {found.request_ids}"
        if found.evidence.get("rows", 0) < report.violations_total and fault.rule[:3] != "KV1":
            return f"with seed {seed} rows are left that nothing explains"
    return ""


def _audit(pool: AuditedPool, backend: Backend, choice: BackendChoice) -> Report:
    return audit(
        Dataset(pools=[pool]),
        backend=backend,
        choice=choice,
        options=AuditOptions(),
        observer=SilentObserver(),
    )


def _named(findings: Sequence[Finding]) -> str:
    return ", ".join(finding.rule for finding in findings) or "nothing"
