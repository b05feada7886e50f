"""KV102 slot-out-of-range: an expectation names a slot that the pool does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding, Severity
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.plan import PlannedLaunch
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more

RULE = Rule(id="KV102", name="slot-out-of-range", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Look at every slot of the sequences, and at every slot and predecessor of the plan."""
    parts = []
    if evidence.judged_slots is not None:
        parts.append(_in_sequences(evidence, evidence.judged_slots))
    parts += [_in_launch(evidence, launch) for launch in evidence.launches if launch.plan.enable]
    slots = np.concatenate([np.empty(0, np.int64), *(part.slots for part in parts)])
    if not slots.size:
        return []
    examples = tuple(example for part in parts for example in part.examples)[:MAX_EXAMPLES]
    first = examples[0]
    who = f" of {first['request_id']}" if first["request_id"] is not None else ""
    summary = (
        f"{first['what']} {first['slot']}{who} at position {first['position']} is outside the pool of "
        f"{evidence.num_slots:,} slots{and_more(len(np.unique(slots)), 'slot')}"
    )
    names = [name for part in parts for name in part.request_ids]
    return [
        RULE.finding(
            evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
        )
    ]


def _outside(slots: NDArray[np.int64], evidence: PoolEvidence) -> NDArray[np.int64]:
    """The elements outside [0, num_slots), shape [n], int64."""
    if slots.size == 0 or (slots.min() >= 0 and slots.max() < evidence.num_slots):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero((slots < 0) | (slots >= evidence.num_slots))


def _in_sequences(evidence: PoolEvidence, held: HeldSlots) -> Hits:
    elements = _outside(held.slots, evidence)
    admitted = evidence.scope.admits_requests(held.sequences.request_ids)[held.owners_of(elements)]
    elements = elements[admitted & evidence.scope.admits_slots(held.slots[elements])]
    names = held.request_ids_of(elements)
    positions = held.positions_of(elements)
    return Hits(
        slots=held.slots[elements],
        request_ids=names,
        examples=tuple(
            _example("slot", int(held.slots[elements[idx]]), names[idx], int(positions[idx]))
            for idx in range(min(len(names), MAX_EXAMPLES))
        ),
    )


def _in_launch(evidence: PoolEvidence, launch: PlannedLaunch) -> Hits:
    plan = launch.plan
    num_active = len(plan)
    slots = plan.verify_slot_indices[:num_active]
    prev_slots = plan.verify_prev_slot_indices[:num_active]
    # A negative predecessor is a chain head, never out of range.
    wrong = [("slot", entry, int(slots[entry])) for entry in _outside(slots, evidence).tolist()] + [
        ("predecessor", entry, int(prev_slots[entry]))
        for entry in np.flatnonzero(prev_slots >= evidence.num_slots).tolist()
    ]
    names = launch.request_ids
    admitted = [
        (what, entry, slot)
        for what, entry, slot in wrong
        if (evidence.scope.slots is None or slot in evidence.scope.slots)
        and (
            not evidence.scope.request_ids
            or (names is not None and names[entry] in evidence.scope.request_ids)
        )
    ]
    return Hits(
        slots=np.array([slot for _, _, slot in admitted], dtype=np.int64),
        request_ids=[] if names is None else [names[entry] for _, entry, _ in admitted],
        examples=tuple(
            _example(
                what,
                slot,
                None if names is None else names[entry],
                int(plan.verify_expected_positions[entry]),
            )
            for what, entry, slot in admitted[:MAX_EXAMPLES]
        ),
    )


def _example(what: str, slot: int, request_id: str | None, position: int) -> dict[str, Any]:
    return {"what": what, "slot": slot, "request_id": request_id, "position": position}
