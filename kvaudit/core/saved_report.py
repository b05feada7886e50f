"""A report that was saved as JSON, as far as it is shown again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFinding:
    """A finding of a saved report.

    Fields:
        rule: id, such as `KV101`; of a newer kvaudit perhaps one that is not known here.
        name: name, such as `slot-alias`.
        severity: `error`, `warning` or `note`; `alternative` of one that has none.
        summary: one sentence.
        request_ids: requests concerned.
        alternatives: rule ids that could explain the same.
        settled_by: what would decide between them; "" when nothing is open.
    """

    rule: str
    name: str
    severity: str
    summary: str
    request_ids: Sequence[str] = ()
    alternatives: Sequence[str] = ()
    settled_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedReport:
    """A saved report in short.

    Fields:
        verdict: `clean`, `violations` or `incomplete`.
        exit_code: what the run left with.
        coverage: (checked, planned) of each family that has any, by name.
        num_violations: failed rows in all.
        findings: in the report's order.
        incomplete_reasons: why the verdict is no better.
    """

    verdict: str
    exit_code: int
    coverage: Mapping[str, tuple[int, int]]
    num_violations: int
    findings: Sequence[SavedFinding] = ()
    incomplete_reasons: Sequence[str] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """The report in short, as JSON values; findings are added by who knows the rules."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "coverage": {
                family: {"checked": checked, "planned": planned}
                for family, (checked, planned) in self.coverage.items()
            },
            "violations": self.num_violations,
            "incomplete_reasons": list(self.incomplete_reasons),
        }
