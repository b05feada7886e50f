"""KV209 record-missing: a slot has its bytes, and no record of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason
from kvaudit.core.column_names import column_order
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import Rule, at, counted

RULE = Rule(id="KV209", name="record-missing", severity=Severity.ERROR)

_REASONS = RECORD_REASONS | FailReason.VERIFY_REAL_KV_HASH_MISMATCH


def explain(failures: Failures) -> list[Explanation]:
    """Zero records of rows that hold KV: the stamping never ran, or its records were lost.

    Zero bytes hash to 0, so digests tell as well as bytes. A dump with neither leaves it open.
    """
    return [found for view in failures.views for found in _in_launch(view)]


def _in_launch(view: RecordView) -> list[Explanation]:
    failed = view.with_open(_REASONS)
    rows = view.rows.rows[failed]
    failed = failed[(rows >= 0) & view.is_zero(np.maximum(rows, 0))]
    if not failed.size:
        return []
    holds_kv = rows_with_content(view.evidence, view.rows.rows[failed])
    if holds_kv is None:
        return [_explanation(view, run, is_open=True) for run in view.runs(failed)]
    return [_explanation(view, run, is_open=False) for run in view.runs(failed[holds_kv])]


def rows_with_content(evidence: PoolEvidence, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Which rows, shape [n], int64, hold any KV that is not zero; None if the dump does not say.

    Returns:
        shape [n], bool.
    """
    snapshot, content = evidence.snapshot, evidence.content
    holds, said = np.zeros(len(rows), dtype=np.bool_), False
    for column in sorted({*snapshot.kv, *snapshot.digests}, key=column_order):
        hashes = None if content is None else content.source_hashes(column, rows[~holds])
        if hashes is not None:
            said = True
            holds[~holds] = hashes != 0
            if holds.all():
                break
    return holds if said else None


def _explanation(view: RecordView, run: NDArray[np.int64], *, is_open: bool) -> Explanation:
    rows = view.rows.rows[run]
    slot, position = int(view.rows.slots[run[0]]), int(view.rows.expected_positions[run[0]])
    more = f"; {counted(len(run), 'position')} in a row" if len(run) > 1 else ""
    kv = "a zero record" if is_open else "KV and a zero record"
    return Explanation(
        rule=RULE,
        cause=rows.tobytes(),
        summary=f"{at(slot, view.evidence)} at position {position} has {kv}{more}",
        roots=np.unique(rows),
        failed=run,
        reasons=_REASONS,
        alternatives=["KV302", "KV311"] if is_open else [],
        settled_by="the KV bytes of these slots, or their digests" if is_open else "",
        is_alternative=is_open,
    )
