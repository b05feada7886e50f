"""A saved report in short, with the words of its rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from kvaudit.core.rule_text import RuleText
from kvaudit.core.saved_report import SavedFinding, SavedReport
from kvaudit.render.labels import count_label, listed, percent_label
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable

# Findings in full; they come ranked.
MAX_FINDINGS: Final = 8
EXPLAINED_SCHEMA: Final = "kvaudit.explained/1"


def saved_report_lines(report: SavedReport, rules: Mapping[str, RuleText]) -> list[Text]:
    """The verdict, then each finding with what its rule means and what to do next."""
    coverage = [
        f"{family} {percent_label(checked / planned) if planned else '-'}"
        for family, (checked, planned) in report.coverage.items()
    ]
    verdict = " · ".join(
        [printable(report.verdict.upper()), count_label(report.num_violations, "violation")]
    )
    lines = [heading(verdict), line(f"covered: {' · '.join(coverage) or 'nothing'}", indent=1)]
    lines += [line(printable(reason), indent=1) for reason in report.incomplete_reasons]
    for finding in report.findings[:MAX_FINDINGS]:
        lines += [Text(), *_finding(finding, rules.get(finding.rule))]
    rest = report.findings[MAX_FINDINGS:]
    if rest:
        names = list(dict.fromkeys(f"{each.rule} {each.name}" for each in rest))
        lines += [Text(), line(f"and {len(rest):,} more: {listed(names)}")]
    return lines


def saved_report_document(report: SavedReport, rules: Mapping[str, RuleText]) -> dict[str, Any]:
    """The same as JSON values; `explained` is null of a rule that is not known here."""
    return {
        "schema": EXPLAINED_SCHEMA,
        **report.to_dict(),
        "findings": [
            {
                "rule": finding.rule,
                "name": finding.name,
                "severity": finding.severity,
                "summary": finding.summary,
                "request_ids": list(finding.request_ids),
                "alternatives": list(finding.alternatives),
                "settled_by": finding.settled_by,
                "explained": rules[finding.rule].to_dict() if finding.rule in rules else None,
            }
            for finding in report.findings
        ],
    }


def _finding(finding: SavedFinding, rule: RuleText | None) -> list[Text]:
    first = f"{finding.severity}  {finding.rule} {finding.name}: {finding.summary}"
    facts = [
        ("requests", listed(finding.request_ids)),
        ("means", rule.meaning if rule else "this kvaudit does not know the rule"),
        *(("likely cause", cause) for cause in (rule.causes if rule else ())),
        ("next", rule.next_step if rule else ""),
        ("or", listed(finding.alternatives)),
        ("settled by", printable(finding.settled_by)),
    ]
    return [line(printable(first)), *aligned([fact for fact in facts if fact[1]])]
