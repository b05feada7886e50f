"""KV311 not-arrived: nothing of a sequence is there, neither records nor bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_view import REAL, ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.rule import Rule, at, counted
from kvaudit.diagnosis.zero_content import zero_rows

RULE = Rule(id="KV311", name="not-arrived", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Sequences of which all is zero, or all that they do not share with others.

    What a sequence shares was there before; its own slots are what had to be transferred. Zero
    from some slot of its own on is a zero tail.
    """
    view = failures.byte_view
    rows = zero_rows(view).without_record
    return [
        _explanation(view, run)
        for run in view.runs(rows)
        if view.first_claims[run[0]] >= 0 and _is_all_of_its_own(view, run)
    ]


def _is_all_of_its_own(view: ByteView, run: NDArray[np.int64]) -> bool:
    """Whether a run has every slot of its sequence, but those that others read too."""
    claims = view.evidence.claims
    number = claims.sequence_numbers[view.first_claims[run[0]]]
    first, last = np.searchsorted(claims.sequence_numbers, [number, number + 1])
    rest = np.setdiff1d(claims.rows[first:last], run)
    others = claims.of_rows(rest)
    others = others[(others < first) | (others >= last)]
    return not np.setdiff1d(rest, claims.rows[others]).size


def _explanation(view: ByteView, run: NDArray[np.int64]) -> Explanation:
    claims = view.evidence.claims
    first = view.first_claims[run[:1]]
    (name,) = claims.request_ids_of(first)
    whose = "a sequence" if name is None else f"request {name}"
    position = int(claims.positions[first[0]])
    slots = view.evidence.snapshot.slots[run]
    share = "nothing" if position == 0 else f"nothing from position {position} on"
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=run.tobytes(),
            summary=(
                f"{share} of {whose} arrived: records and bytes are zero from "
                f"{at(slots[0], view.evidence)} on, in {counted(len(run), 'slot')}"
            ),
            roots=run,
        ),
        reasons=RECORD_REASONS | REAL,
    )
