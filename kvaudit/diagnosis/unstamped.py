"""KV004 unstamped: no stamp was ever written, so there is nothing to compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import Hits, Rule, and_more, at, held_examples

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
        findings.append(_never_stamped(evidence, gaps.never_stamped_slots))
    return findings


def _never_stamped(evidence: PoolEvidence, slots: NDArray[np.int64]) -> Finding:
    """Planned slots without a stamp, and who reads them where sequences say so."""
    held = evidence.judged_slots
    names: list[str] = []
    examples: tuple[dict[str, Any], ...] = ()
    if held is not None:
        elements = np.flatnonzero(np.isin(held.slots, slots))
        elements = elements[evidence.admits_elements(held, elements)]
        names, examples = held.owner_names_of(elements), held_examples(held, elements)
    reader = (
        f", position {examples[0]['position']} of {examples[0]['request_id']}," if examples else ""
    )
    slot = examples[0]["slot"] if examples else slots[0]
    summary = (
        f"{at(slot, evidence)}{reader} was never stamped (stamped_step -1), and is not judged"
        f"{and_more(len(slots), 'slot')}"
    )
    return RULE.finding(
        evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
    )
