"""KV207 undeclared-offset: every row fits one constant offset that the dump does not declare."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_EXPECTED_TOKEN, FailReason
from kvaudit.core.claims import Claims
from kvaudit.core.severity import Severity
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.failures import Failures
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.rule import Rule, counted

RULE = Rule(id="KV207", name="undeclared-offset", severity=Severity.ERROR)

# A draft model's tokens are a few positions ahead, never many.
_MAX_TOKEN_OFFSET: Final = 64
# Other faults may be in the same pool; but what fits fewer rows is a fault of some sequences.
_MIN_SHARE: Final = 0.9
_MIN_ROWS: Final = 2


def explain(failures: Failures) -> list[Explanation]:
    """A constant delta on the whole pool: of its positions, or between positions and tokens.

    It may be how the engine numbers, or the very bug: it is one finding, and never forgiven.
    """
    found = []
    for view in failures.views:
        claims = _claims_of(view)
        if claims.size:
            found += [*_of_positions(view, claims), *_of_tokens(view, claims)]
    return found


def _claims_of(view: RecordView) -> NDArray[np.int64]:
    """What the sources of a launch claim of rows that hold a record, shape [n], int64."""
    claims = view.evidence.claims
    sources = np.unique(view.rows.sources[view.failed])
    used = np.flatnonzero(np.isin(claims.source_indices, sources) & (claims.rows >= 0))
    return used[~view.is_zero(claims.rows[used])]


def _of_positions(view: RecordView, claims: NDArray[np.int64]) -> list[Explanation]:
    failed = view.with_open(FailReason.VERIFY_POSITION_MISMATCH)
    if len(failed) < _MIN_ROWS:
        return []
    of_claims, rows = view.evidence.claims, view.evidence.claims.rows[claims]
    deltas = view.positions[rows].view(np.int64) - of_claims.positions[claims]
    delta = int(np.median(deltas))
    if not delta or np.count_nonzero(deltas == delta) < _MIN_SHARE * len(claims):
        return []
    stored = view.positions[view.rows.rows[failed]].view(np.int64)
    fits = failed[stored - view.rows.expected_positions[failed] == delta]
    declared = view.evidence.snapshot.position_offset
    return [
        _explanation(
            view,
            fits,
            reasons=FailReason.VERIFY_POSITION_MISMATCH,
            key="position_offset",
            offset=declared + delta,
        )
    ]


def _of_tokens(view: RecordView, claims: NDArray[np.int64]) -> list[Explanation]:
    failed = view.with_open(FailReason.VERIFY_TOKEN_MISMATCH)
    if len(failed) < _MIN_ROWS:
        return []
    stored = view.tokens.view(np.int64)
    for offset in _candidates(view, claims, stored):
        wanted, is_known = _tokens_at(view.evidence.claims, claims, offset)
        equal = wanted == stored[view.evidence.claims.rows[claims]]
        num_known, num_equal = np.count_nonzero(is_known), np.count_nonzero(equal & is_known)
        # Far on, few rows have a token to be compared with: two pages that changed places fit too.
        if 2 * num_known > len(claims) and num_equal >= max(_MIN_ROWS, _MIN_SHARE * num_known):
            bad = view.evidence.claims.rows[claims[~equal & is_known]]
            fits = failed[~np.isin(view.rows.rows[failed], bad)]
            declared = view.evidence.snapshot.token_offset
            return [
                _explanation(
                    view,
                    fits,
                    reasons=FailReason.VERIFY_TOKEN_MISMATCH,
                    key="token_offset",
                    offset=declared + offset,
                )
            ]
    return []


def _candidates(
    view: RecordView, claims: NDArray[np.int64], stored: NDArray[np.int64]
) -> list[int]:
    """Offsets that some claim in the middle of the pool fits, the nearest to 0 first."""
    of_claims = view.evidence.claims
    middle = claims[len(claims) // 2 : len(claims) // 2 + 1]
    middle = np.concatenate((middle, claims[:1]))
    found = set()
    for offset in range(-_MAX_TOKEN_OFFSET, _MAX_TOKEN_OFFSET + 1):
        wanted, is_known = _tokens_at(of_claims, middle, offset)
        if offset and (is_known & (wanted == stored[of_claims.rows[middle]])).any():
            found.add(offset)
    return sorted(found, key=lambda offset: (abs(offset), offset))


def _tokens_at(
    claims: Claims, members: NDArray[np.int64], offset: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The token of the same sequence so many positions on, and whether it is known; [n] each."""
    others = members + offset
    inside = (others >= 0) & (others < len(claims))
    others = np.where(inside, others, members)
    numbers = claims.sequence_numbers
    tokens = claims.tokens[others]
    known = inside & (numbers[others] == numbers[members]) & (tokens != NO_EXPECTED_TOKEN)
    return tokens, known


def _explanation(
    view: RecordView,
    failed: NDArray[np.int64],
    *,
    reasons: FailReason,
    key: str,
    offset: int,
) -> Explanation:
    words = key.replace("_", " ")
    return Explanation(
        rule=RULE,
        cause=(key, offset),
        summary=(
            f"fits {words} {offset} on all rows ({counted(len(failed), 'row')} of "
            f"{view.tag.name}): declare it or fix it"
        ),
        roots=np.unique(view.rows.rows[failed]),
        failed=failed,
        reasons=reasons,
        breaks_chain=False,
        facts={key: offset},
        alternatives=["KV204"] if key == "position_offset" else ["KV201"],
        settled_by=f"how the engine numbers: kvaudit.{key} in the dump if it is meant",
    )
