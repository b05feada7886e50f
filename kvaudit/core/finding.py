"""A diagnosed cause with what it explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey

# The JSON report lists so many slots of a finding; its evidence carries the exact count.
MAX_LISTED: Final = 1000


class RuleGroup(StrEnum):
    """What a rule looks at: the first digit of its id says it."""

    COVERAGE = "KV0"
    INDEX = "KV1"
    IDENTITY = "KV2"
    BYTES = "KV3"
    COMPARISON = "KV4"


def group_of(rule_id: str) -> RuleGroup:
    """The group of a rule, by its id such as `KV101`."""
    return RuleGroup(rule_id[:3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause, named by a rule.

    Fields:
        rule: stable id, such as `KV101`.
        name: stable name, such as `slot-alias`.
        severity: None for an alternative, which never fails a run.
        summary: one sentence for people; slots in both numberings.
        slots: slots concerned, ascending, in the engine's numbering.
        request_ids: requests concerned, in input order.
        key: the pool.
        evidence: what the rule saw, by name; JSON values only.
        alternatives: rule ids that could explain the same rows, most likely first.
        settled_by: what would decide between them; "" when nothing is open.
    """

    rule: str
    name: str
    severity: Severity | None
    summary: str
    slots: Sequence[int] = ()
    request_ids: Sequence[str] = ()
    key: PoolKey
    evidence: Mapping[str, Any] = field(default_factory=dict)
    alternatives: Sequence[str] = ()
    settled_by: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The finding in the JSON report (DESIGN.md 5)."""
        return {
            "rule": self.rule,
            "name": self.name,
            "severity": None if self.severity is None else str(self.severity),
            "summary": self.summary,
            "slots": list(self.slots[:MAX_LISTED]),
            "request_ids": list(self.request_ids),
            **self.key.place(),
            "step": self.key.step,
            "evidence": dict(self.evidence),
            "alternatives": list(self.alternatives),
            "settled_by": self.settled_by,
        }
