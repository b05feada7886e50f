"""KV404 replay-divergence: a run, run again from its trace, is not what was recorded."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kvaudit.core.divergence import Divergence, DivergenceKind
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.core.violation import hash_label
from kvaudit.diagnosis.rule import Hits, Rule, and_more, at

RULE = Rule(id="KV404", name="replay-divergence", severity=Severity.ERROR)

# Requests that the summary names; all that are known are listed beside it.
MAX_NAMED: Final = 3

_WHAT: Final = {
    DivergenceKind.VIOLATION: "a launch finds {column}",
    DivergenceKind.PLAN: "{column} of the recorded plan is not what the tables give",
    DivergenceKind.TABLE: "the request's slot in the snapshot is not that of the steps",
    DivergenceKind.RECORD: "{column} in the snapshot is not what the steps wrote",
    DivergenceKind.STAMP: "{column} changed, though no step wrote the slot",
    DivergenceKind.BYTES: "{column} changed without a write",
}


def find(evidence: PoolEvidence) -> list[Finding]:
    """Name the first difference, and the steps in which it arose."""
    divergences = evidence.health.divergences
    if not divergences.kept:
        return []
    first = divergences.kept[0]
    what = _WHAT[first.kind].format(column=first.column or "violations without a row")
    summary = (
        f"the first difference is of {_steps(first)}: {_place(first, evidence)}{what}"
        f"{and_more(divergences.total, 'difference')}"
    )
    kept = divergences.kept
    hits = Hits(
        slots=np.array([each.slot for each in kept if each.slot is not None], dtype=np.int64),
        request_ids=[name for each in kept for name in each.request_ids],
        examples=tuple(_example(each) for each in kept),
    )
    facts = {
        "first_step": first.first_step,
        "last_step": first.last_step,
        "num_differences": divergences.total,
    }
    return [RULE.finding(evidence, summary, hits=hits, facts=facts)]


def _steps(divergence: Divergence) -> str:
    """`step 120`, or `steps 101 to 150` where it lies between two snapshots."""
    first, last = divergence.first_step, divergence.last_step
    return f"step {last}" if first == last else f"steps {first} to {last}"


def _place(divergence: Divergence, evidence: PoolEvidence) -> str:
    """`slot 37 (page 2 +5), request tale, position 9: `."""
    places = []
    if divergence.slot is not None:
        inside = 0 <= divergence.slot < evidence.snapshot.num_slots
        places.append(at(divergence.slot, evidence) if inside else f"slot {divergence.slot}")
    if divergence.request_ids:
        names = divergence.request_ids
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        noun = "request" if len(names) == 1 else "requests"
        places.append(f"{noun} {', '.join(names[:MAX_NAMED])}{more}")
    if divergence.position is not None:
        places.append(f"position {divergence.position}")
    return f"{', '.join(places)}: " if places else ""


def _example(divergence: Divergence) -> dict[str, Any]:
    """A difference as JSON values."""
    label = hash_label if divergence.column.endswith("prev_hash") else int
    values: dict[str, Any] = {
        "what": str(divergence.kind),
        "first_step": divergence.first_step,
        "last_step": divergence.last_step,
        "column": divergence.column or None,
        "slot": divergence.slot,
        "position": divergence.position,
        "request_ids": list(divergence.request_ids) or None,
        "recorded": None if divergence.recorded is None else label(divergence.recorded),
        "replayed": None if divergence.replayed is None else label(divergence.replayed),
    }
    return {name: value for name, value in values.items() if value is not None}
