"""Diagnosed causes: each with its slots, its requests and what would settle it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvaudit.core.finding import Finding, Severity
from kvaudit.render.labels import count_label, listed, ranges_label
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable

SEVERITY_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.NOTE: "cyan",
    None: "dim",
}


def finding_list(findings: Sequence[Finding]) -> list[Text]:
    """The findings in the report's order; empty when there are none."""
    if not findings:
        return []
    lines = [heading("findings")]
    for finding in findings:
        lines += _finding(finding)
    return lines


def _finding(finding: Finding) -> list[Text]:
    label = "alternative" if finding.severity is None else str(finding.severity)
    first = line(
        (label, SEVERITY_STYLES[finding.severity]),
        f"  {finding.rule} {finding.name}: {printable(finding.summary)}",
        indent=1,
    )
    facts = [
        ("pool", _pool(finding)),
        ("slots", f"{ranges_label(finding.slots)} ({count_label(len(finding.slots), 'slot')})"),
        ("requests", listed(finding.request_ids)),
        ("evidence", listed([f"{name} {value}" for name, value in finding.evidence.items()])),
        ("or", listed(finding.alternatives)),
        ("settled by", printable(finding.settled_by)),
    ]
    present = {
        "pool": finding.rank is not None,
        "slots": bool(finding.slots),
        "requests": bool(finding.request_ids),
        "evidence": bool(finding.evidence),
        "or": bool(finding.alternatives),
        "settled by": bool(finding.settled_by),
    }
    return [first, *aligned([fact for fact in facts if present[fact[0]]], indent=3)]


def _pool(finding: Finding) -> str:
    return printable(finding.pool) + f" rank {finding.rank}"
