"""KV204 position-shift: positions were wrong when they were stamped, and chained so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import Rule, at, counted
from kvaudit.kernels.hash.arrays import bits_set

RULE = Rule(id="KV204", name="position-shift", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Rows that are right in all but their position, and so are their successors.

    A position that changed later has lost its successor, and content on a wrong slot its
    predecessor.
    """
    return [found for view in failures.views for found in _in_launch(view)]


def _in_launch(view: RecordView) -> list[Explanation]:
    failed = view.with_only(FailReason.VERIFY_POSITION_MISMATCH)
    rows = view.rows.rows[failed]
    failed = failed[~np.isin(rows, view.replaced_rows) & ~view.is_zero(rows)]
    return [_explanation(view, run) for run in view.runs(failed)]


def _explanation(view: RecordView, run: NDArray[np.int64]) -> Explanation:
    rows = view.rows.rows[run]
    stored, expected = view.positions[rows].view(np.int64), view.rows.expected_positions[run]
    deltas = stored - expected
    lowest, highest = int(deltas.min()), int(deltas.max())
    slot = int(view.rows.slots[run[0]])
    drift = f"{lowest:+d}" if lowest == highest else f"{lowest:+d} to {highest:+d}"
    summary = (
        f"{at(slot, view.evidence)} was stamped with position {stored[0]} where its sequence is "
        f"at {expected[0]}: {counted(len(run), 'position')} off by {drift}"
    )
    is_last = not view.evidence.claims.after_rows(rows[-1:]).size
    flipped = int(bits_set((stored[-1:] ^ expected[-1:]).view(np.uint64))[0])
    lone = len(run) == 1 and is_last and flipped == 1
    return Explanation(
        rule=RULE,
        cause=rows.tobytes(),
        summary=summary,
        roots=np.unique(rows),
        failed=run,
        reasons=FailReason.VERIFY_POSITION_MISMATCH,
        breaks_chain=False,
        facts={"first_delta": int(deltas[0]), "last_delta": int(deltas[-1])},
        alternatives=["KV208"] if lone else [],
        settled_by="a dump of a later step: its next record is chained" if lone else "",
    )
