"""What a rule means, for people: one text for the page of rules and for `kvaudit explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """A rule in words.

    Fields:
        id: stable id, such as `KV101`.
        name: stable name, such as `slot-alias`.
        severity: weight of its findings: `error`, `warning` or `note`.
        meaning: what a finding of it says.
        evidence: what a dump must have for it.
        causes: what led to it where it was seen, most likely first.
        next_step: what to do next.
    """

    id: str
    name: str
    severity: str
    meaning: str
    evidence: str
    causes: tuple[str, ...]
    next_step: str

    def to_dict(self) -> dict[str, Any]:
        """The rule as JSON values."""
        return {
            "rule": self.id,
            "name": self.name,
            "severity": self.severity,
            "meaning": self.meaning,
            "evidence": self.evidence,
            "causes": list(self.causes),
            "next_step": self.next_step,
        }
