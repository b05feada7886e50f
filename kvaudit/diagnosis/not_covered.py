"""KV001 not-covered: something was planned that this run could not judge."""

from __future__ import annotations

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more, at

RULE = Rule(id="KV001", name="not-covered", severity=Severity.WARNING)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Name planned slots that the dump lacks, and the bytes of a dump taken in mid-step."""
    return [*_absent(evidence), *_mid_step(evidence)]


def _absent(evidence: PoolEvidence) -> list[Finding]:
    slots = evidence.gaps.absent_slots
    if not slots.size:
        return []
    summary = f"{at(slots[0], evidence)} is planned, but not in the snapshot{and_more(len(slots), 'slot')}"
    return [RULE.finding(evidence, summary, hits=Hits(slots=slots))]


def _mid_step(evidence: PoolEvidence) -> list[Finding]:
    gaps = evidence.gaps
    if not gaps.mid_step:
        return []
    summary = "the dump was taken in mid-step, so bytes are not judged"
    if gaps.mid_step_slots or gaps.mid_step_entries:
        summary += (
            f"; {gaps.mid_step_slots:,} slots differ from their stamps, and "
            f"{gaps.mid_step_entries:,} entries from their combined hash"
        )
    differences = {
        name: slots[:MAX_EXAMPLES].tolist() for name, slots in gaps.mid_step_columns.items()
    }
    facts = {
        "at": "mid_step",
        "differing_slots": gaps.mid_step_slots,
        "differing_entries": gaps.mid_step_entries,
        "differing_columns": differences,
    }
    return [RULE.finding(evidence, summary, hits=Hits(), facts=facts)]
