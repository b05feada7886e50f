"""KV005 ring-overflow: more violations than the ring could keep."""

from __future__ import annotations

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import Hits, Rule, counted

RULE = Rule(id="KV005", name="ring-overflow", severity=Severity.WARNING)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Count the violations whose rows are lost: the ring is filled once and never wraps."""
    health = evidence.health
    capacity = health.ring_capacity
    if capacity is None or health.violations <= capacity:
        return []
    lost = health.violations - capacity
    summary = (
        f"the ring holds {counted(capacity, 'row')} and {health.violations:,} violations were "
        f"counted: {counted(lost, 'row')} of later violations "
        f"{'is' if lost == 1 else 'are'} lost, so later causes may show nowhere"
    )
    facts = {"violations": health.violations, "ring_capacity": capacity}
    return [RULE.finding(evidence, summary, hits=Hits(), facts=facts)]
