"""KV101 slot-alias: one slot, two live owners that need different content."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_EXPECTED_TOKEN, PREDECESSOR_UNREACHABLE
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.plan import PlannedLaunch, VerifyPlan
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
    far as both sequences still have one. Without sequences, a plan's entries say whose slots are.
    """
    held = evidence.live_slots
    if held is None:
        return _of_plans(evidence)
    elements = _shared(held.slots, evidence)
    if not elements.size:
        return []
    firsts, others = _pairs(held.slots, elements)
    aliased = ~_same_content(held, firsts, others)
    aliased &= evidence.admits_elements(held, firsts) | evidence.admits_elements(held, others)
    firsts, others = firsts[aliased], others[aliased]
    if not firsts.size:
        return []
    shown = np.stack((firsts[:MAX_EXAMPLES], others[:MAX_EXAMPLES]), axis=1)
    owners = [
        list(zip(held.request_ids_of(pair), held.positions_of(pair).tolist(), strict=True))
        for pair in shown
    ]
    names = held.owner_names_of(np.concatenate((firsts, others)))
    return [_finding(evidence, held.slots[others], owners=owners, names=names)]


def _of_plans(evidence: PoolEvidence) -> list[Finding]:
    """The same of the entries of each launch: those of K and V, head and tail, repeat each other."""
    found, names = [np.empty(0, dtype=np.int64)], []
    owners: list[list[tuple[str | None, int]]] = []
    for launch in evidence.launches:
        firsts, others = _aliased_entries(evidence, launch)
        found.append(launch.plan.verify_slot_indices[others])
        of_entries = launch.request_ids
        if of_entries is not None:
            names += [of_entries[entry] for entry in np.union1d(firsts, others).tolist()]
        for pair in np.stack((firsts, others), axis=1)[: MAX_EXAMPLES - len(owners)].tolist():
            known = [None if of_entries is None else of_entries[entry] for entry in pair]
            positions = launch.plan.verify_expected_positions[pair].tolist()
            owners.append(list(zip(known, positions, strict=True)))
    slots = np.concatenate(found)
    return [_finding(evidence, slots, owners=owners, names=names)] if slots.size else []


def _aliased_entries(
    evidence: PoolEvidence, launch: PlannedLaunch
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entries that a later one takes the slot of for something else, and those; both shape [n], int64."""
    plan = launch.plan
    slots = plan.verify_slot_indices[: len(plan)]
    elements = _shared(slots, evidence) if plan.enable else slots[:0]
    if not elements.size:
        return elements, elements
    firsts, others = _pairs(slots, elements)
    aliased = ~_same_entries(plan, firsts, others)
    admitted = evidence.scope.admits_entries(launch)
    if admitted is not None:
        aliased &= admitted[firsts] | admitted[others]
    return firsts[aliased], others[aliased]


def _finding(
    evidence: PoolEvidence,
    slots: NDArray[np.int64],
    *,
    owners: Sequence[Sequence[tuple[str | None, int]]],
    names: Sequence[str],
) -> Finding:
    """The finding of slots, shape [n], int64, of the first of which the owners are spelled out."""
    (one, position), (two, other_position) = owners[0]
    summary = (
        f"{at(slots[0], evidence)} is held by {one or 'a request'} at position {position} and "
        f"by {two or 'another'} at position {other_position}, which need different content"
        f"{and_more(len(np.unique(slots)), 'slot')}"
    )
    examples = tuple(
        {
            "slot": slot,
            "owners": [{"request_id": name, "position": place} for name, place in pair],
        }
        for slot, pair in zip(slots[:MAX_EXAMPLES].tolist(), owners[:MAX_EXAMPLES], strict=True)
    )
    return RULE.finding(
        evidence, summary, hits=Hits(slots=slots, request_ids=names, examples=examples)
    )


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


def _same_entries(
    plan: VerifyPlan, firsts: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which pairs of entries may share their slot, as far as a plan tells; shape [n], bool."""
    tokens, prev_slots = plan.verify_expected_tokens, plan.verify_prev_slot_indices
    positions = plan.verify_expected_positions
    known = (tokens[firsts] != NO_EXPECTED_TOKEN) & (tokens[others] != NO_EXPECTED_TOKEN)
    same_prev = prev_slots[firsts] == prev_slots[others]
    for members in (firsts, others):
        same_prev |= prev_slots[members] == PREDECESSOR_UNREACHABLE
    same: NDArray[np.bool_] = positions[firsts] == positions[others]
    same &= np.where(known, tokens[firsts] == tokens[others], same_prev)
    return same
