"""KV307 reserved-slot-poisoned: a reserved slot holds a NaN or an infinity."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.column_names import column_order
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.finding import Finding
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.nonfinite import knows, nonfinite_elements
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Hits, Rule, at

RULE = Rule(id="KV307", name="reserved-slot-poisoned", severity=Severity.ERROR)

# The first reserved slots: padding rows are written to them, whatever their number.
_MAX_SLOTS: Final = 256


def find(evidence: PoolEvidence) -> list[Finding]:
    """Rubbish is legal there and a NaN is not: what masks a padding row multiplies it by zero."""
    snapshot = evidence.snapshot
    if not evidence.judges_bytes or not snapshot.kv:
        return []
    rows = np.flatnonzero(snapshot.reserved_slots.mask(snapshot.slots))[:_MAX_SLOTS]
    poisoned: dict[str, NDArray[np.int64]] = {}
    for name in sorted(snapshot.kv, key=column_order):
        column = snapshot.kv[name]
        found = _nonfinite_rows(column, rows) if knows(column.dtype) else rows[:0]
        if found.size:
            poisoned[name] = found
    if not poisoned:
        return []
    slots = snapshot.slots[np.unique(np.concatenate(list(poisoned.values())))]
    first = next(iter(poisoned))
    more = f" and {len(poisoned) - 1} more" if len(poisoned) > 1 else ""
    return [
        RULE.finding(
            evidence,
            f"{at(slots[0], evidence)} is reserved and holds a NaN or an infinity in {first}{more}",
            hits=Hits(slots=slots),
            facts={"columns": list(poisoned)[:MAX_EXAMPLES], "num_columns": len(poisoned)},
        )
    ]


def _nonfinite_rows(column: KvColumn, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the rows, shape [n], int64, with a NaN or an infinity."""
    bad = [
        nonfinite_elements(
            column.read_rows(row, row + 1)[:, : column.read_bytes], column.dtype
        ).any()
        for row in rows.tolist()
    ]
    return rows[np.array(bad, dtype=np.bool_)]
