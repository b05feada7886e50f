"""KV201 token-mismatch: a slot was written, and chained, for another token than its sequence has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule, at, counted
from kvaudit.kernels.hash.arrays import bits_set

RULE = Rule(id="KV201", name="token-mismatch", severity=Severity.ERROR)


def explain(failures: Failures) -> list[Explanation]:
    """Rows that hold another token and are right in all else, and so are their successors.

    What another rule explains is no matter: positions may be off in the whole pool. The token was
    wrong when it was stamped (CASES.md 2, fact 3): a record that changed later has lost its
    successor. Rows that follow one another in a sequence are of one cause.
    """
    return [found for view in failures.views for found in _in_launch(view)]


def _in_launch(view: RecordView) -> list[Explanation]:
    failed = view.with_open(FailReason.VERIFY_TOKEN_MISMATCH)
    failed = failed[view.all_open_reasons[failed] == FailReason.VERIFY_TOKEN_MISMATCH]
    failed = failed[~np.isin(view.rows.rows[failed], view.replaced_rows)]
    return [_explanation(view, run) for run in view.runs(failed)]


def _explanation(view: RecordView, run: NDArray[np.int64]) -> Explanation:
    rows = view.rows
    slots, expected = rows.slots[run], rows.expected_tokens[run]
    stored = view.tokens[rows.rows[run]].view(np.int64)
    more = f"; {counted(len(run), 'position')} in a row" if len(run) > 1 else ""
    summary = (
        f"{at(slots[0], view.evidence)} was written for token {stored[0]} where its sequence has "
        f"{expected[0]} at position {rows.expected_positions[run[0]]}{more}"
    )
    examples = [
        {"slot": slot, "token": token, "expected_token": wanted}
        for slot, token, wanted in zip(
            slots[:MAX_EXAMPLES].tolist(),
            stored[:MAX_EXAMPLES].tolist(),
            expected[:MAX_EXAMPLES].tolist(),
            strict=True,
        )
    ]
    is_last = not view.evidence.claims.after_rows(rows.rows[run[-1:]]).size
    flipped = int(bits_set((stored[-1:] ^ expected[-1:]).view(np.uint64))[0])
    alternatives, settled_by = [], ""
    if len(run) > 1:
        alternatives, settled_by = ["KV202"], "the tokens of every sequence that the pool held"
    elif is_last and flipped == 1:
        alternatives, settled_by = ["KV208"], "a dump of a later step: its next record is chained"
    return Explanation(
        rule=RULE,
        cause=tuple(rows.rows[run].tolist()),
        summary=summary,
        roots=np.unique(rows.rows[run]),
        failed=run,
        reasons=FailReason.VERIFY_TOKEN_MISMATCH,
        breaks_chain=False,
        facts={"examples": examples},
        alternatives=alternatives,
        settled_by=settled_by,
    )
