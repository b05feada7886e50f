"""KV102 slot-out-of-range: an expectation names a slot that the pool does not have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.plan import PlannedLaunch
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more, held_examples

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
        f"{evidence.snapshot.num_slots:,} slots{and_more(len(np.unique(slots)), 'slot')}"
    )
    names = (name for part in parts for name in part.request_ids)
    return [
        RULE.finding(
            evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
        )
    ]


def _outside(slots: NDArray[np.int64], evidence: PoolEvidence) -> NDArray[np.int64]:
    """The elements outside [0, num_slots), shape [n], int64."""
    num_slots = evidence.snapshot.num_slots
    if slots.size == 0 or (slots.min() >= 0 and slots.max() < num_slots):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero((slots < 0) | (slots >= num_slots))


def _in_sequences(evidence: PoolEvidence, held: HeldSlots) -> Hits:
    elements = _outside(held.slots, evidence)
    elements = elements[evidence.admits_elements(held, elements)]
    return Hits(
        slots=held.slots[elements],
        request_ids=held.owner_names_of(elements),
        examples=tuple({"what": "slot", **example} for example in held_examples(held, elements)),
    )


def _in_launch(evidence: PoolEvidence, launch: PlannedLaunch) -> Hits:
    """Entries in scope with a slot, or a predecessor, outside the pool."""
    plan, names = launch.plan, launch.request_ids
    slots = plan.verify_slot_indices[: len(plan)]
    prev_slots = plan.verify_prev_slot_indices[: len(plan)]
    # A negative predecessor is a chain head, never out of range.
    of_slot = _outside(slots, evidence)
    of_prev = np.flatnonzero(prev_slots >= evidence.snapshot.num_slots)
    admitted = evidence.scope.admits_entries(launch)
    if admitted is not None:
        of_slot, of_prev = of_slot[admitted[of_slot]], of_prev[admitted[of_prev]]
    entries = np.concatenate((of_slot, of_prev))
    wrong = np.concatenate((slots[of_slot], prev_slots[of_prev]))
    return Hits(
        slots=wrong,
        request_ids=() if names is None else (names[entry] for entry in entries.tolist()),
        examples=tuple(
            {
                "what": "slot" if idx < len(of_slot) else "predecessor",
                "slot": int(wrong[idx]),
                "request_id": None if names is None else names[entry],
                "position": int(plan.verify_expected_positions[entry]),
            }
            for idx, entry in enumerate(entries[:MAX_EXAMPLES].tolist())
        ),
    )
