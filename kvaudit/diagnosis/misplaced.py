"""What the rules on misplaced records share: how they name them, and which rows they claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_EXPECTED_TOKEN
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.content_moves import MovedContent
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.row_sets import differing_at
from kvaudit.diagnosis.rule import MAX_EXAMPLES, Rule


def misplaced_explanation(
    rule: Rule, view: RecordView, moved: MovedContent, *, summary: str, facts: Mapping[str, Any]
) -> Explanation:
    """Misplaced records of one cause by a rule.

    What lay where they belong and failed there is displaced by the same cause. Their bytes came
    with them where these are not what was stamped. What a sequence wrote behind them since is its
    own.
    """
    slots = view.evidence.snapshot.slots
    adrift = [row for row in moved.adrift.tolist() if not view.homes.holds_its_own(row)]
    displaced = moved.homes[np.isin(moved.homes, view.homes.failed_rows)]
    rows = np.union1d(np.concatenate((moved.rows, np.array(adrift, dtype=np.int64))), displaced)
    examples = [
        {"slot": slot, "holds_content_of_slot": home}
        for slot, home in zip(
            slots[moved.rows[:MAX_EXAMPLES]].tolist(),
            slots[moved.homes[:MAX_EXAMPLES]].tolist(),
            strict=True,
        )
    ]
    return Explanation(
        rule=rule,
        cause=rows.tobytes(),
        summary=summary,
        roots=rows,
        failed=view.on_rows(rows),
        reasons=RECORD_REASONS,
        columns=differing_at(view.evidence.differing, rows),
        facts={**facts, "examples": examples},
    )


def owner_of(view: RecordView | ByteView, row: int) -> str:
    """Who claims a row: `request A`, `a request without a name`, or `nobody`."""
    return _claimant(view, view.evidence.claims.of_rows(np.array([row])))


def content_owner(view: RecordView, moved: MovedContent) -> str:
    """Who the first of misplaced records is of: of those who claim its home, whom it fits."""
    row, claims = moved.rows[0], view.evidence.claims
    members = claims.of_rows(moved.homes[:1])
    tokens = claims.tokens[members]
    fits = (tokens == NO_EXPECTED_TOKEN) | (tokens.view(np.uint64) == view.tokens[row])
    fits &= claims.positions[members].view(np.uint64) == view.positions[row]
    return _claimant(view, members[fits] if fits.any() else members)


def _claimant(view: RecordView | ByteView, claims: NDArray[np.int64]) -> str:
    names = view.evidence.claims.request_ids_of(claims)
    unnamed = "a request without a name" if len(claims) else "nobody"
    return next((f"request {name}" for name in names if name is not None), unnamed)
