"""KV004 unstamped: no stamp was ever written, so there is nothing to compare."""

from __future__ import annotations

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding, Severity
from kvaudit.diagnosis.rule import Hits, Rule

RULE = Rule(id="KV004", name="unstamped", severity=Severity.NOTE)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Name columns that are zero throughout, and planned slots whose stamped_step is -1."""
    gaps = evidence.gaps
    findings = []
    if gaps.unstamped_columns:
        names = ", ".join(gaps.unstamped_columns)
        verb = "is" if len(gaps.unstamped_columns) == 1 else "are"
        facts = {"columns": list(gaps.unstamped_columns)}
        summary = f"{names} {verb} zero throughout: never stamped, and not judged"
        findings.append(RULE.finding(evidence, summary, hits=Hits(), facts=facts))
    if gaps.never_stamped_slots.size:
        summary = (
            f"{len(gaps.never_stamped_slots):,} planned slots were never stamped (stamped_step -1)"
        )
        findings.append(RULE.finding(evidence, summary, hits=Hits(slots=gaps.never_stamped_slots)))
    return findings
