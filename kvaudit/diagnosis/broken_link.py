"""KV103 broken-link: a plan's predecessor contradicts the plan's own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PADDING_SLOT
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.plan import PlannedLaunch
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more, at

RULE = Rule(id="KV103", name="broken-link", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Check that each entry's predecessor is the slot of the position before it.

    Where the plan names requests, the position before is looked up in the same request. Where it
    does not, a predecessor is broken only if the plan itself gives it other positions alone.
    """
    findings = []
    for launch in evidence.launches:
        if launch.plan.enable and len(launch.plan):
            findings += _in_launch(evidence, launch)
    return findings


def _in_launch(evidence: PoolEvidence, launch: PlannedLaunch) -> list[Finding]:
    plan = launch.plan
    slots = plan.verify_slot_indices[: len(plan)]
    prev_slots = plan.verify_prev_slot_indices[: len(plan)]
    positions = plan.verify_expected_positions[: len(plan)]
    position_offset = evidence.snapshot.position_offset
    reserves_padding = PADDING_SLOT in evidence.snapshot.reserved_slots
    linked = prev_slots > PADDING_SLOT if reserves_padding else prev_slots >= PADDING_SLOT
    broken = (prev_slots < 0) & (positions != 0) & (positions != position_offset)
    if position_offset >= 0:
        broken |= linked & (positions == 0)
    names = launch.request_ids
    if names is None:
        broken |= linked & _held_elsewhere(slots, prev_slots, positions)
    else:
        broken |= linked & _not_the_one_before(slots, prev_slots, positions, names=names)
    if reserves_padding:
        broken &= slots != PADDING_SLOT
    admitted = evidence.scope.admits_entries(launch)
    if admitted is not None:
        broken &= admitted
    entries = np.flatnonzero(broken)
    if not entries.size:
        return []
    first = int(entries[0])
    who = "" if names is None else f" of {names[first]}"
    what = "a chain head" if prev_slots[first] < 0 else at(prev_slots[first], evidence)
    summary = (
        f"the plan links {at(slots[first], evidence)}{who} at position {positions[first]} to {what}, "
        f"which is not the slot of the position before{and_more(len(entries), 'link')}"
    )
    examples = tuple(
        {
            "entry": entry,
            "slot": int(slots[entry]),
            "position": int(positions[entry]),
            "prev_slot": int(prev_slots[entry]),
        }
        for entry in entries[:MAX_EXAMPLES].tolist()
    )
    owners = [] if names is None else [names[entry] for entry in entries.tolist()]
    hits = Hits(slots=slots[entries], request_ids=owners, examples=examples)
    return [RULE.finding(evidence, summary, hits=hits, facts={"step": launch.step})]


def _not_the_one_before(
    slots: NDArray[np.int64],
    prev_slots: NDArray[np.int64],
    positions: NDArray[np.int64],
    *,
    names: Sequence[str],
) -> NDArray[np.bool_]:
    """Entries whose request has the position before on another slot, shape [n], bool."""
    numbers: dict[str, int] = {}
    owners = np.array([numbers.setdefault(n, len(numbers)) for n in names[: len(slots)]])
    order = np.lexsort((positions, owners))
    before, after = order[:-1], order[1:]
    follows = (owners[before] == owners[after]) & (positions[after] == positions[before] + 1)
    wrong = np.zeros(len(slots), dtype=np.bool_)
    # A predecessor that the table no longer has says nothing.
    wrong[after] = follows & (prev_slots[after] != slots[before]) & (slots[before] != PADDING_SLOT)
    return wrong


def _held_elsewhere(
    slots: NDArray[np.int64], prev_slots: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Entries whose predecessor the plan holds at other positions only, shape [n], bool."""
    named, numbers = np.unique(slots, return_inverse=True)
    span = int(positions.max() - positions.min()) + 3
    shifted = positions - positions.min() + 1
    held = np.sort(numbers * span + shifted)
    at_slot = np.minimum(np.searchsorted(named, prev_slots), len(named) - 1)
    planned = named[at_slot] == prev_slots
    wanted = at_slot * span + shifted - 1
    found = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    elsewhere: NDArray[np.bool_] = planned & (held[found] != wanted)
    return elsewhere
