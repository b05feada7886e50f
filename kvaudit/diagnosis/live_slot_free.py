"""KV106 live-slot-free: the allocator may give away a slot that a live sequence holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import AllocState
from kvaudit.diagnosis.rule import Hits, Rule, and_more, at, held_examples

RULE = Rule(id="KV106", name="live-slot-free", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Look up every live slot in the allocator's state."""
    held = evidence.live_slots
    elements = free_elements(evidence)
    if held is None or not elements.size:
        return []
    elements = elements[evidence.admits_elements(held, elements)]
    if not elements.size:
        return []
    slots, names = held.slots[elements], held.owner_names_of(elements)
    examples = held_examples(held, elements)
    first = examples[0]
    summary = (
        f"{at(first['slot'], evidence)}, position {first['position']} of {first['request_id']}, is on "
        f"the free list{and_more(len(np.unique(slots)), 'slot')}"
    )
    return [
        RULE.finding(
            evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
        )
    ]


def free_elements(evidence: PoolEvidence) -> NDArray[np.int64]:
    """Elements of the live slots that the allocator calls free, shape [n], int64."""
    held = evidence.live_slots
    if held is None or "alloc.state" not in evidence.columns:
        return np.empty(0, dtype=np.int64)
    free: NDArray[np.bool_] = evidence.columns["alloc.state"] == AllocState.FREE
    rows = evidence.snapshot.rows_of(held.slots)
    elements: NDArray[np.int64] = np.flatnonzero((rows >= 0) & evidence.names_slot(held.slots))
    return elements[free[rows[elements]]]
