"""Which findings of a pool concern one slot, and why."""

from __future__ import annotations

from collections.abc import Sequence

from kvaudit.constants import FailReason
from kvaudit.core.blame_report import RelatedFinding, Relation
from kvaudit.core.finding import Finding
from kvaudit.core.slot_readers import SlotClaim
from kvaudit.core.violation import Violation

_ORDER = tuple(Relation)


def related_findings(
    findings: Sequence[Finding],
    slot: int,
    *,
    claims: Sequence[SlotClaim],
    failed: Sequence[Violation],
) -> list[RelatedFinding]:
    """The findings that concern a slot: that name it, a slot before it, or a request that reads it.

    A slot whose chain check failed behind one that a finding names follows from that.

    Args:
        findings: what an audit of the pool found.
        slot: the slot.
        claims: the claims on the slot.
        failed: its failed rows.
    """
    broken = any(row.reasons & FailReason.VERIFY_CHAIN_HASH_MISMATCH for row in failed)
    before = {claim.prev_slot for claim in claims} if broken else set()
    readers = {claim.reader.request_id for claim in claims if not claim.not_judged} - {None}
    found = []
    for finding in findings:
        if slot in finding.slots:
            found.append(RelatedFinding(relation=Relation.NAMES, finding=finding))
        elif not before.isdisjoint(finding.slots):
            found.append(RelatedFinding(relation=Relation.BEFORE, finding=finding))
        elif not readers.isdisjoint(finding.request_ids):
            found.append(RelatedFinding(relation=Relation.TAINTS, finding=finding))
    return sorted(found, key=lambda each: _ORDER.index(each.relation))
