"""KV401 rank-divergence: ranks of one engine disagree on what is loaded where."""

from __future__ import annotations

from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_evidence import LegEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.leg_differences import LegDifferences
from kvaudit.diagnosis.rule import Rule, and_more

RULE = Rule(id="KV401", name="rank-divergence", severity=Severity.ERROR)


def find(evidence: LegEvidence) -> list[Finding]:
    """Name the first slot, or request, of which two ranks hold different things."""
    if evidence.kind is not LegKind.RANKS or not (evidence.num_differing or evidence.num_tables):
        return []
    found = LegDifferences(evidence)
    more = and_more(evidence.num_differing or evidence.num_tables, _noun(evidence))
    return [
        RULE.finding(
            evidence,
            f"rank {evidence.right.key.rank} does not hold what rank {evidence.left.key.rank} "
            f"does: {found.words()}{more}",
            hits=found.hits(),
            facts=found.facts(),
        )
    ]


def _noun(evidence: LegEvidence) -> str:
    return "slot" if evidence.num_differing else "difference"
