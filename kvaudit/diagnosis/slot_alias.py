"""KV101 slot-alias: one slot, two live owners that need different content."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more, at

RULE = Rule(id="KV101", name="slot-alias", severity=Severity.ERROR)

# A table of the pool is cheaper than a sort as long as it is not much longer than the plan.
_SLOTS_PER_ELEMENT = 16
_SMALL_POOL = 1 << 20


def find(evidence: PoolEvidence) -> list[Finding]:
    """Compare every owner of a slot with its first one.

    A shared prefix is no alias (CASES.md G1): same position, same tokens up to it and same extra
    key mean the same content. Where tokens are not known, the preceding slot must be the same, as
    far as both sequences still have one.
    """
    held = evidence.live_slots
    if held is None:
        return []
    elements = _shared(held.slots, evidence)
    if not elements.size:
        return []
    firsts, others = _pairs(held.slots, elements)
    aliased = ~_same_content(held, firsts, others)
    aliased &= evidence.admits_elements(held, firsts) | evidence.admits_elements(held, others)
    firsts, others = firsts[aliased], others[aliased]
    if not firsts.size:
        return []
    slots = held.slots[others]
    shown = np.stack((firsts[:MAX_EXAMPLES], others[:MAX_EXAMPLES]), axis=1)
    owners = [
        [
            {"request_id": name, "position": position}
            for name, position in zip(
                held.request_ids_of(pair), held.positions_of(pair).tolist(), strict=True
            )
        ]
        for pair in shown
    ]
    one, two = owners[0]
    summary = (
        f"{at(slots[0], evidence)} is held by {one['request_id']} at position {one['position']} and "
        f"by {two['request_id']} at position {two['position']}, which need different content"
        f"{and_more(len(np.unique(slots)), 'slot')}"
    )
    examples = tuple(
        {"slot": slot, "owners": pair}
        for slot, pair in zip(slots[:MAX_EXAMPLES].tolist(), owners, strict=True)
    )
    names = held.owner_names_of(np.concatenate((firsts, others)))
    return [
        RULE.finding(
            evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
        )
    ]


def _shared(slots: NDArray[np.int64], evidence: PoolEvidence) -> NDArray[np.int64]:
    """The elements whose slot occurs more than once, shape [n], int64, ascending."""
    if slots.size < 2:  # noqa: PLR2004 - a pair
        return np.empty(0, dtype=np.int64)
    usable = evidence.names_slot(slots)
    elements = None if usable.all() else np.flatnonzero(usable)
    used = slots if elements is None else slots[elements]
    num_slots = evidence.snapshot.num_slots
    if num_slots <= _SLOTS_PER_ELEMENT * len(slots) + _SMALL_POOL:
        seen = np.zeros(num_slots, dtype=np.bool_)
        seen[used] = True
        if np.count_nonzero(seen) == len(used):
            return np.empty(0, dtype=np.int64)
        repeated = np.bincount(used, minlength=num_slots)[used] > 1
    else:
        _, inverse, counts = np.unique(used, return_inverse=True, return_counts=True)
        repeated = counts[inverse] > 1
    return np.flatnonzero(repeated) if elements is None else elements[repeated]


def _pairs(
    slots: NDArray[np.int64], elements: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every element but a slot's first, with that first one; both shape [n], int64, by slot."""
    by_slot = elements[np.argsort(slots[elements], kind="stable")]
    starts_group = np.concatenate(([True], np.diff(slots[by_slot]) != 0))
    first = by_slot[starts_group][np.cumsum(starts_group) - 1]
    return first[~starts_group], by_slot[~starts_group]


def _same_content(
    held: HeldSlots, firsts: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which pairs may share their slot, shape [n], bool."""
    keys = held.extra_key_numbers
    same: NDArray[np.bool_] = held.positions_of(firsts) == held.positions_of(others)
    same &= keys[held.owners_of(firsts)] == keys[held.owners_of(others)]
    history, known = held.histories_of(firsts)
    other_history, other_known = held.histories_of(others)
    same_prev = held.prev_slots_of(firsts) == held.prev_slots_of(others)
    same_prev |= _is_cut_off(held, firsts) | _is_cut_off(held, others)
    same &= np.where(known & other_known, history == other_history, same_prev)
    return same


def _is_cut_off(held: HeldSlots, elements: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Elements, shape [n], int64, whose sequence let go of the position before; shape [n], bool."""
    at_first = held.offsets[held.owners_of(elements)] == elements
    cut_off: NDArray[np.bool_] = at_first & (held.positions_of(elements) > 0)
    return cut_off
