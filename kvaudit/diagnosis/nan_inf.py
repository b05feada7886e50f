"""KV306 nan-inf: a slot that a sequence reads holds a NaN or an infinity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason
from kvaudit.core.column_names import column_layer, column_order
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_rows import byte_rows
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.nonfinite import knows, nonfinite_elements
from kvaudit.diagnosis.row_sets import among, union_of
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, and_more, at, counted

RULE = Rule(id="KV306", name="nan-inf", severity=Severity.ERROR)


def find(evidence: PoolEvidence) -> list[Finding]:
    """Slots that were stamped as they are: no hash tells (CASES.md T25), so bytes are looked at.

    A NaN in any layer is in every later one of its token, as that attends to itself: the last layer
    has them all. Side buffers are small.
    """
    if not evidence.judges_bytes:
        return []
    found: dict[str, NDArray[np.int64]] = {}
    unread = _rows_that_nobody_reads(evidence)
    for column in _columns_to_scan(evidence):
        rows = _nonfinite_rows(column)
        rows = rows[~np.isin(rows, unread)]
        if rows.size:
            found[column.name] = rows
    if not found:
        return []
    rows = np.unique(np.concatenate(list(found.values())))
    slots = evidence.snapshot.slots[rows]
    held = evidence.live_slots
    names = [] if held is None else held.owner_names_of(np.flatnonzero(np.isin(held.slots, slots)))
    summary = (
        f"{at(slots[0], evidence)} holds a NaN or an infinity in {next(iter(found))}, and was "
        f"stamped with it{and_more(len(slots), 'slot')}"
    )
    return [
        RULE.finding(
            evidence,
            summary,
            hits=Hits(slots=slots, request_ids=names),
            facts={"columns": list(found)[:MAX_EXAMPLES], "num_columns": len(found)},
        )
    ]


def _columns_to_scan(evidence: PoolEvidence) -> list[KvColumn]:
    columns = evidence.snapshot.kv
    layers = [layer for layer in map(column_layer, columns) if layer is not None]
    last = max(layers, default=None)
    names = [name for name in columns if column_layer(name) in (None, last)]
    return [columns[name] for name in sorted(names, key=column_order) if knows(columns[name].dtype)]


def _nonfinite_rows(column: KvColumn) -> NDArray[np.int64]:
    """The rows of a column with any such element, shape [n], int64, ascending."""
    found = [np.empty(0, dtype=np.int64)]
    for window in column.windows():
        for part in window.parts(next_is_walked=True):
            elements = nonfinite_elements(window.data[part, : column.read_bytes], column.dtype)
            if elements.any():
                rows = np.flatnonzero(elements.any(axis=1))
                found.append(rows + window.first_row + part.start)
    return np.concatenate(found)


def _rows_that_nobody_reads(evidence: PoolEvidence) -> NDArray[np.int64]:
    """Rows that no expectation names, reserved ones, and those that an explanation is due for."""
    snapshot = evidence.snapshot
    plans = [launch.plan for launch in evidence.launches]
    readers = [plan.verify_slot_indices[: len(plan)] for plan in plans]
    if evidence.live_slots is not None:
        readers.append(evidence.live_slots.slots)
    read = evidence.names_slot(snapshot.slots)
    if readers:
        read &= np.isin(snapshot.slots, np.concatenate(readers))
    real = evidence.failed.reasons & np.uint32(FailReason.VERIFY_REAL_KV_HASH_MISMATCH)
    failed = evidence.failed.rows[real != 0]
    due = [np.flatnonzero(~read), failed[failed >= 0], *evidence.differing.values()]
    return np.unique(np.concatenate(due))


def explain(failures: Failures) -> list[Explanation]:
    """Bytes that changed, and hold a NaN or an infinity now."""
    view = failures.byte_view
    columns: dict[str, NDArray[np.int64]] = {}
    for part in byte_rows(view):
        if part.data is not None:
            dtype = view.evidence.snapshot.kv[part.column].dtype
            if knows(dtype):
                bad = nonfinite_elements(part.data, dtype).any(axis=1)
                known = columns.get(part.column, part.rows[:0])
                columns[part.column] = np.union1d(known, part.rows[bad])
    rows = union_of([*columns.values()])
    return [_explanation(view, run, columns) for run in view.bounded_runs(rows)]


def _explanation(
    view: ByteView, run: NDArray[np.int64], columns: dict[str, NDArray[np.int64]]
) -> Explanation:
    names = [name for name, rows in columns.items() if among(run, rows).any()]
    slot = view.evidence.snapshot.slots[run[0]]
    more = f"; {counted(len(run), 'slot')} in a row" if len(run) > 1 else ""
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=run.tobytes(),
            summary=(
                f"{at(slot, view.evidence)} was stamped, and holds a NaN or an infinity in "
                f"{names[0]} since{more}"
            ),
            roots=run,
            facts={"columns": names[:MAX_EXAMPLES], "num_columns": len(names)},
        )
    )
