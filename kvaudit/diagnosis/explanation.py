"""What a rule says of failed rows: which of them it explains, by what, and how surely."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason
from kvaudit.diagnosis.rule import Rule

_NO_ROWS = np.empty(0, dtype=np.int64)
_NO_REASON = FailReason(0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """One cause as one launch shows it; those of one cause become one finding.

    Fields:
        rule: the rule.
        cause: equal for explanations of one cause, such as the same slot in K and in V.
        summary: one sentence for people; slots in both numberings.
        roots: rows of the snapshot that the cause made wrong, shape [n], int64, in any order.
        breaks_chain: whether the roots are not what their successors were chained to: the failed
            chain checks of these are then consequences, and need not be claimed.
        failed: numbers of the failed rows that it explains, shape [n], int64.
        reasons: which of their reasons it explains.
        columns: rows whose column differences it explains, by KV column; shape [n] each, int64.
        facts: what the rule saw, by name; JSON values only.
        alternatives: rule ids that could explain the same, most likely first.
        settled_by: what would decide between them; "" when nothing is open.
        is_alternative: whether the rule lacks its evidence: such a finding has no severity.
    """

    rule: Rule
    cause: Hashable
    summary: str
    roots: NDArray[np.int64]
    failed: NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)
    reasons: FailReason = _NO_REASON
    columns: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    breaks_chain: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)
    alternatives: Sequence[str] = ()
    settled_by: str = ""
    is_alternative: bool = False

    def with_rows(self, failed: NDArray[np.int64], *, roots: NDArray[np.int64]) -> Explanation:
        """The same, with more failed rows and more bad rows; shape [n], int64 each."""
        return replace(
            self,
            failed=np.union1d(self.failed, failed),
            roots=np.union1d(self.roots, roots),
        )
