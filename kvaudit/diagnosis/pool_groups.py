"""Findings of one cause in several ranks' pools, or at several steps, as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from kvaudit.core.finding import Finding


def grouped_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Join the findings that say the same of pools which differ in rank or step alone.

    Args:
        findings: of any pools, in any order.

    Returns:
        one finding a cause, in the order of its first one. What it saw is the first one's; `ranks`
        and `steps` of its evidence list where else it was seen, and `rows` are those of all.
    """
    groups: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_cause(finding), []).append(finding)
    return [_joined(group) for group in groups.values()]


def _cause(finding: Finding) -> Hashable:
    named = bool(finding.slots or finding.request_ids)
    return (
        replace(finding.key, rank=None, step=None),
        finding.rule,
        finding.severity,
        tuple(finding.slots),
        tuple(finding.request_ids),
        # One that names neither slots nor requests is known by its words alone.
        "" if named else finding.summary,
    )


def _joined(group: Sequence[Finding]) -> Finding:
    first = group[0]
    if len(group) == 1:
        return first
    evidence: dict[str, Any] = dict(first.evidence)
    for name, values in (
        ("ranks", [finding.key.rank for finding in group]),
        ("steps", [finding.key.step for finding in group]),
    ):
        known = sorted({value for value in values if value is not None})
        if len(known) > 1:
            evidence[name] = known
    if "rows" in evidence:
        evidence["rows"] = sum(finding.evidence.get("rows", 0) for finding in group)
    return replace(first, evidence=evidence)
