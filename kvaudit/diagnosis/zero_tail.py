"""KV302 zero-tail: content is zero from some page, slot or byte on."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.byte_rows import ByteRows, byte_rows
from kvaudit.diagnosis.byte_view import REAL, ByteView
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.row_sets import among
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, at, content_at, counted, hashes_counted
from kvaudit.diagnosis.zero_content import ZeroRows, zero_rows

RULE = Rule(id="KV302", name="zero-tail", severity=Severity.ERROR)

# Zero bytes at the end of a row that are no chance, and sound rows that they are compared with.
_MIN_ZERO_BYTES: Final = 8
_SOUND_ROWS: Final = 16


def explain(failures: Failures) -> list[Explanation]:
    """Slots that are zero, with their records or without, and rows that are zero at their end.

    Something ended early: a transfer, a copy, or the life of the slots. A sequence of which
    nothing at all arrived has a rule of its own. Rows that end in zeros everywhere are padded.
    """
    view = failures.byte_view
    zero = zero_rows(view)
    rows = np.union1d(zero.without_record, zero.with_record)
    found = [_of_slots(view, run, zero) for run in view.bounded_runs(rows)]
    return found + [part for columns in byte_rows(view) for part in _of_bytes(view, columns, rows)]


def _of_slots(view: ByteView, run: NDArray[np.int64], zero: ZeroRows) -> Explanation:
    snapshot = view.evidence.snapshot
    slots, page_size = snapshot.slots[run], snapshot.page_size
    has_record = among(run, zero.with_record).any()
    columns = [name for name, rows in zero.columns.items() if among(run, rows).any()]
    of_kv = [name for name in columns if name in view.kv_columns]
    what = "bytes are zero" if has_record else "records and bytes are zero"
    if has_record and len(of_kv) < len(view.kv_columns):
        what = (
            f"{of_kv[0]} and {len(of_kv) - 1} more are zero" if of_kv[1:] else f"{of_kv[0]} is zero"
        )
    begins = "page" if page_size > 1 and slots[0] % page_size == 0 else "slot"
    facts: dict[str, Any] = {"from": begins, "columns": columns[:MAX_EXAMPLES]}
    to_the_end = _reaches_the_end(view, run)
    where = "to the end of its sequence" if to_the_end else "in the middle of its sequence"
    explanation = Explanation(
        rule=RULE,
        cause=run.tobytes(),
        summary=(
            f"{what} from {content_at(slots[0], view.evidence)} on, "
            f"in {hashes_counted(len(run), view.evidence)}, {where}"
        ),
        roots=run,
        facts=facts,
        alternatives=() if to_the_end else ("KV203",),
        settled_by="" if to_the_end else "the dump of the sender, or one of an earlier step",
    )
    if among(run, zero.without_record).any():
        return view.claiming(explanation, reasons=RECORD_REASONS | REAL)
    return view.claiming(explanation, columns=columns)


def _reaches_the_end(view: ByteView, run: NDArray[np.int64]) -> bool:
    """Whether no sequence that claims the last row of a run goes on behind it."""
    claims = view.evidence.claims
    last = view.evidence.snapshot.hashed_with(run[-1:])
    behind = claims.rows[claims.after_rows(last)]
    return not ((behind >= 0) & ~among(behind, last)).any()


def _of_bytes(view: ByteView, part: ByteRows, zero: NDArray[np.int64]) -> list[Explanation]:
    """Rows that are zero from some byte on, where sound rows are not."""
    if part.data is None or not part.data.shape[1]:
        return []
    filled = _filled_bytes(part.data)
    limit = min(part.data.shape[1] - _MIN_ZERO_BYTES, _longest_sound(view, part) - 1)
    cut = (filled > 0) & (filled <= limit) & ~among(part.rows, zero)
    found = []
    for run in view.bounded_runs(part.rows[cut]):
        first = int(filled[np.flatnonzero(part.rows == run[0])[0]])
        found.append(_cut_off(view, part.column, run, first=first))
    return found


def _filled_bytes(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Bytes of each row, shape [n, num_bytes], up to its last one that is not zero; shape [n]."""
    filled = data.shape[1] - np.argmax(data[:, ::-1] != 0, axis=1)
    return np.where(data.any(axis=1), filled, 0)


def _longest_sound(view: ByteView, part: ByteRows) -> int:
    """The most bytes that any of the first sound rows of a column fills; all where there is none."""
    sound = view.claimed_rows[~among(view.claimed_rows, view.rows())][:_SOUND_ROWS]
    data = view.content.kv_bytes(part.column, sound)
    if part.data is None or data is None or not sound.size:
        return view.evidence.snapshot.kv[part.column].read_bytes
    return int(_filled_bytes(data[:, : part.data.shape[1]]).max())


def _cut_off(view: ByteView, column: str, run: NDArray[np.int64], *, first: int) -> Explanation:
    slot = view.evidence.snapshot.slots[run[0]]
    more = f"; {counted(len(run), 'slot')} in a row" if len(run) > 1 else ""
    explanation = Explanation(
        rule=RULE,
        cause=run.tobytes(),
        summary=f"{column} at {at(slot, view.evidence)} is zero from byte {first} on{more}",
        roots=run,
        facts={"from": "byte", "byte": first},
    )
    return view.claiming(explanation, columns=[column])
