"""KV402 transfer-divergence: what is the same content in two dumps is not the same KV."""

from __future__ import annotations

from dataclasses import replace

from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_evidence import LegEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.leg_differences import LegDifferences
from kvaudit.diagnosis.rule import Rule, and_more

RULE = Rule(id="KV402", name="transfer-divergence", severity=Severity.ERROR)


def find(evidence: LegEvidence) -> list[Finding]:
    """Name the leg that damaged slots, and where the first of them parts from its origin."""
    if evidence.kind is LegKind.RANKS or not (evidence.num_differing or evidence.num_tables):
        return []
    found = LegDifferences(evidence)
    noun = "slot" if evidence.num_differing else "difference"
    more = and_more(evidence.num_differing or evidence.num_tables, noun)
    finding = RULE.finding(
        evidence,
        f"the leg {evidence.name} does not preserve what it carries: {found.words()}{more}",
        hits=found.hits(),
        facts=found.facts(),
    )
    return [replace(finding, alternatives=found.alternatives(), settled_by=found.settled_by())]
