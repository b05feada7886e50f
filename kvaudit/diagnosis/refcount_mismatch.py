"""KV108 refcount-mismatch: the allocator counts other holders of a slot than there are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import AllocState
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more, at, counted

RULE = Rule(id="KV108", name="refcount-mismatch", severity=Severity.ERROR)

# These hold a reference in every engine; a cached prefix does in some, and not in others.
_HOLDING = (None, SequenceState.RUNNING)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Compare each slot's references with the sequences that name it.

    Fewer than the running ones is an error. More than all is one only if the sequences are all
    there are: no other slot is referenced by somebody that they do not name.
    """
    if evidence.sequences is None or "alloc.ref" not in evidence.columns:
        return []
    row_slots = evidence.snapshot.slots
    refs = evidence.columns["alloc.ref"].astype(np.int64)
    running = _holders(evidence, HeldSlots(sequences=evidence.sequences, states=_HOLDING))
    everyone = _everyone(evidence, evidence.sequences)
    wrong = (refs >= 0) & (refs < running)
    referenced = (refs > 0) & evidence.names_slot(row_slots)
    if not (referenced & (everyone == 0)).any():
        wrong |= referenced & (refs > everyone + _cached(evidence))
    if wrong.any():
        wrong &= evidence.scope.admits_slots(row_slots)
        wrong &= np.isin(row_slots, _named_in_scope(evidence, evidence.sequences))
    rows = np.flatnonzero(wrong)
    if not rows.size:
        return []
    slots = row_slots[rows]
    names = _names(evidence, evidence.sequences, slots)
    examples = tuple(
        {
            "slot": int(row_slots[row]),
            "ref": int(refs[row]),
            "running": int(running[row]),
            "sequences": int(everyone[row]),
        }
        for row in rows[:MAX_EXAMPLES].tolist()
    )
    first = examples[0]
    summary = (
        f"{at(slots[0], evidence)} has {counted(first['ref'], 'reference')}, but "
        f"{counted(first['sequences'], 'sequence')} {'names' if first['sequences'] == 1 else 'name'} "
        f"it, {first['running']} of them running{and_more(len(slots), 'slot')}"
    )
    return [
        RULE.finding(
            evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
        )
    ]


def _holders(evidence: PoolEvidence, held: HeldSlots) -> NDArray[np.int64]:
    """How many sequences hold each row below their kv_len, shape [num_rows], int64."""
    return _counts(evidence, held.slots)


def _everyone(evidence: PoolEvidence, sequences: Sequences) -> NDArray[np.int64]:
    """How many times any list names each row, kv_len or not, shape [num_rows], int64."""
    return _counts(evidence, sequences.slots)


def _counts(evidence: PoolEvidence, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    rows = evidence.snapshot.rows_of(slots)
    rows = rows[(rows >= 0) & evidence.names_slot(slots)]
    return np.bincount(rows, minlength=evidence.snapshot.num_rows).astype(np.int64)


def _cached(evidence: PoolEvidence) -> NDArray[np.int64]:
    """One more where the allocator's prefix cache may hold a reference, shape [num_rows], int64."""
    states = evidence.columns.get("alloc.state")
    if states is None:
        return np.zeros(evidence.snapshot.num_rows, dtype=np.int64)
    cached: NDArray[np.int64] = (states == AllocState.CACHED).astype(np.int64)
    return cached


def _named_in_scope(evidence: PoolEvidence, sequences: Sequences) -> NDArray[np.int64]:
    """The slots that requests in scope list, shape [n], int64, repeated or not."""
    admitted = evidence.scope.admits_requests(sequences.request_ids)
    if admitted.all():
        return sequences.slots
    return sequences.slots[np.repeat(admitted, np.diff(sequences.slot_offsets))]


def _names(evidence: PoolEvidence, sequences: Sequences, slots: NDArray[np.int64]) -> list[str]:
    """The requests in scope that list any of the slots, in input order."""
    elements = np.flatnonzero(np.isin(sequences.slots, slots))
    owners = np.unique(np.searchsorted(sequences.slot_offsets, elements, side="right") - 1)
    admitted = evidence.scope.admits_requests(sequences.request_ids)
    return [sequences.request_ids[owner] for owner in owners.tolist() if admitted[owner]]
