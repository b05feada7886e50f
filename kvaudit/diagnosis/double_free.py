"""KV107 double-free: a slot was freed twice, or is free and owned at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import AllocState
from kvaudit.diagnosis.live_slot_free import free_elements
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more, at

RULE = Rule(id="KV107", name="double-free", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Look for negative reference counts, and for free slots with an owner.

    A free slot that a live sequence holds is KV106, and not repeated here.
    """
    row_slots = evidence.snapshot.slots
    negative = _negative(evidence)
    owned = _free_and_owned(evidence)
    held = evidence.live_slots
    if held is not None:
        owned &= ~np.isin(row_slots, held.slots[free_elements(evidence)])
    wrong = (negative | owned) & evidence.scope.admits_slots(row_slots)
    owners = evidence.columns.get("alloc.owner")
    rows = np.flatnonzero(wrong)
    if evidence.scope.request_ids:
        asked = evidence.scope.request_ids
        mine = [owners is not None and owners[row] in asked for row in rows.tolist()]
        rows = rows[np.array(mine, dtype=np.bool_)]
    if not rows.size:
        return []
    slots = row_slots[rows]
    refs = evidence.columns.get("alloc.ref")
    examples = tuple(
        {
            "slot": int(row_slots[row]),
            "ref": None if refs is None else int(refs[row]),
            "owner": None if owners is None else owners[row],
        }
        for row in rows[:MAX_EXAMPLES].tolist()
    )
    first = examples[0]
    if negative[rows[0]]:
        what = f"has {first['ref']} references: it was freed more often than taken"
    else:
        what = f"is on the free list and owned by {first['owner']}"
    summary = f"{at(slots[0], evidence)} {what}{and_more(len(slots), 'slot')}"
    names = [] if owners is None else [o for o in owners[rows].tolist() if o is not None]
    return [
        RULE.finding(
            evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
        )
    ]


def _negative(evidence: PoolEvidence) -> NDArray[np.bool_]:
    """Rows with fewer than no references, shape [num_rows], bool."""
    refs = evidence.columns.get("alloc.ref")
    if refs is None:
        return np.zeros(evidence.snapshot.num_rows, dtype=np.bool_)
    negative: NDArray[np.bool_] = refs < 0
    return negative


def _free_and_owned(evidence: PoolEvidence) -> NDArray[np.bool_]:
    """Rows that are free and have an owner, shape [num_rows], bool."""
    states, owners = evidence.columns.get("alloc.state"), evidence.columns.get("alloc.owner")
    if states is None or owners is None:
        return np.zeros(evidence.snapshot.num_rows, dtype=np.bool_)
    owned = np.fromiter((owner is not None for owner in owners), np.bool_, len(owners))
    both: NDArray[np.bool_] = (states == AllocState.FREE) & owned
    return both
