"""KV310 bytes-permuted: the bytes of slots changed places, and their records did not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_moves import ByteMove, MovedBytes, moved_bytes
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.row_sets import among
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, content_at, counted, hashes_counted

RULE = Rule(id="KV310", name="bytes-permuted", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Bytes that fit the stamps of each other's slots, or of another slot of their sequence.

    Whole pages did so if every slot has its bytes at the same place of another page.
    """
    view = failures.byte_view
    groups = [moved for moved in moved_bytes(view) if moved.move is ByteMove.PERMUTED]
    open_rows = view.rows()
    return [_explanation(view, moved, open_rows) for moved in groups]


def _explanation(view: ByteView, moved: MovedBytes, open_rows: NDArray[np.int64]) -> Explanation:
    snapshot = view.evidence.snapshot
    slots, homes = snapshot.slots[moved.rows], snapshot.slots[moved.homes]
    page_size = snapshot.page_size
    in_place = page_size > 1 and bool((slots % page_size == homes % page_size).all())
    pages = np.unique(slots // page_size)
    unit = f"{hashes_counted(len(slots), view.evidence)} in all"
    if in_place:
        unit = f"{counted(len(pages), 'page')} in the wrong order"
    examples = [
        {"slot": slot, "holds_bytes_of_slot": home}
        for slot, home in zip(
            slots[:MAX_EXAMPLES].tolist(), homes[:MAX_EXAMPLES].tolist(), strict=True
        )
    ]
    rows = np.union1d(moved.rows, moved.homes[among(moved.homes, open_rows)])
    return view.claiming(
        Explanation(
            rule=RULE,
            cause=rows.tobytes(),
            summary=(
                f"{content_at(slots[0], view.evidence)} holds the bytes of "
                f"{content_at(homes[0], view.evidence)}, and its own record: {unit}"
            ),
            roots=rows,
            facts={"unit": "page" if in_place else "slot", "examples": examples},
        )
    )
