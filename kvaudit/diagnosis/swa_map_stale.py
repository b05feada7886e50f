"""KV105 swa-map-stale: the full-to-window map fails a live sequence inside its window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import SWA_TOMBSTONE
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.held_slots import HeldSlots
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import Hits, Rule, and_more, at, held_examples

RULE = Rule(id="KV105", name="swa-map-stale", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Look up every live slot inside its window in the map.

    A tombstone there, a target outside the window pool, or one target for two live slots is
    stale. Without a known window, tombstones are right everywhere.
    """
    held = evidence.live_slots
    if held is None or "swa_slot" not in evidence.columns:
        return []
    elements = _inside_window(evidence, held)
    rows = evidence.snapshot.rows_of(held.slots[elements])
    elements, rows = elements[rows >= 0], rows[rows >= 0]
    targets = evidence.columns["swa_slot"][rows].astype(np.int64)
    lost = (
        (targets == SWA_TOMBSTONE) if evidence.swa_window is not None else np.zeros(len(rows), bool)
    )
    outside = targets < 0
    if evidence.swa_num_slots is not None:
        outside |= targets >= evidence.swa_num_slots
    doubled = _doubled(rows, targets) & (targets != SWA_TOMBSTONE) & ~outside
    findings = []
    for wrong, what in (
        (lost, "maps to a tombstone inside its window"),
        (outside, "maps outside the window pool"),
        (doubled, "shares its window slot with another live slot"),
    ):
        findings += _finding(evidence, held, elements[wrong], targets=targets[wrong], what=what)
    return findings


def _inside_window(evidence: PoolEvidence, held: HeldSlots) -> NDArray[np.int64]:
    """Elements in scope that a window reaches, shape [n], int64; all where it is not known."""
    elements = np.arange(len(held.slots), dtype=np.int64)
    owners = held.owners_of(elements)
    keep = evidence.names_slot(held.slots)
    if evidence.swa_window is not None:
        kv_lens = held.sequences.kv_lens[owners]
        keep &= held.positions_of(elements) >= kv_lens - evidence.swa_window
    return elements[keep]


def _doubled(rows: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Elements whose target another row has too, shape [n], bool."""
    _, at_first = np.unique(rows, return_index=True)
    values, counts = np.unique(targets[at_first], return_counts=True)
    return np.isin(targets, values[counts > 1])


def _finding(
    evidence: PoolEvidence,
    held: HeldSlots,
    elements: NDArray[np.int64],
    *,
    targets: NDArray[np.int64],
    what: str,
) -> list[Finding]:
    admitted = evidence.admits_elements(held, elements)
    elements, targets = elements[admitted], targets[admitted]
    if not elements.size:
        return []
    slots, names = held.slots[elements], held.owner_names_of(elements)
    examples = tuple(
        {**example, "swa_slot": target}
        for example, target in zip(held_examples(held, elements), targets.tolist(), strict=False)
    )
    first = examples[0]
    summary = (
        f"{at(first['slot'], evidence)}, position {first['position']} of {first['request_id']}, {what}"
        f"{and_more(len(np.unique(slots)), 'slot')}"
    )
    hits = Hits(slots=slots, request_ids=names, examples=examples)
    return [RULE.finding(evidence, summary, hits=hits, facts={"window": evidence.swa_window})]
