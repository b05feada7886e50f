"""KV003 kernel-stalled: launches were due, and their counter stood still."""

from __future__ import annotations

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more

RULE = Rule(id="KV003", name="kernel-stalled", severity=Severity.WARNING)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Name the tags of the first check that saw a stall, and those whose counter lacks launches."""
    return [*_stalled(evidence), *_uncounted(evidence)]


def _stalled(evidence: PoolEvidence) -> list[Finding]:
    stalls = evidence.health.stalls
    if not stalls:
        return []
    examples = tuple(
        {"step": stall.step, "tags": [tag.name for tag in stall.tags]}
        for stall in stalls[:MAX_EXAMPLES]
    )
    first = stalls[0]
    summary = (
        f"launches of {', '.join(tag.name for tag in first.tags)} did not run between the check at "
        f"step {first.step} and the one before it: nothing of theirs was checked"
        f"{and_more(len(stalls), 'check')}"
    )
    tags = sorted({tag for stall in stalls for tag in stall.tags})
    facts = {"tags": [tag.name for tag in tags], "num_checks": len(stalls)}
    return [RULE.finding(evidence, summary, hits=Hits(examples=examples), facts=facts)]


def _uncounted(evidence: PoolEvidence) -> list[Finding]:
    uncounted = evidence.health.uncounted
    if not uncounted:
        return []
    examples = tuple(
        {"tag": each.tag.name, "counted": each.counted, "told": each.told} for each in uncounted
    )
    first = uncounted[0]
    summary = (
        f"the counter of {first.tag.name} has {first.counted:,} launches, and the trace tells of "
        f"{first.told:,}: the others did not run{and_more(len(uncounted), 'tag')}"
    )
    facts = {"tags": [each.tag.name for each in uncounted]}
    return [RULE.finding(evidence, summary, hits=Hits(examples=examples), facts=facts)]
