"""Diagnosed causes: each with its slots, its requests and what would settle it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from kvaudit.core.finding import Finding
from kvaudit.core.severity import Severity
from kvaudit.render.example_label import example_label, nested_label, range_label
from kvaudit.render.labels import count_label, listed, names_label, pool_label, ranges_label
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable
from kvaudit.render.token_labels import TokenWords

# Findings in full: with their facts they fill a screen. They come ranked.
MAX_FINDINGS: Final = 8
MAX_EXAMPLES: Final = 3
MAX_RANGES: Final = 8
# Evidence that is shown an entry a line, under a word of its own.
LISTED: Final = {"ranges": ("range", range_label), "examples": ("for example", example_label)}
# Evidence that names KV columns, of which there may be one a layer and half.
COLUMNS: Final = "columns"
SEVERITY_STYLES: Final = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.NOTE: "cyan",
    None: "dim",
}


def finding_list(
    findings: Sequence[Finding], *, names_pool: bool, words: TokenWords | None = None
) -> list[Text]:
    """The findings in the report's order; empty when there are none.

    Args:
        findings: the findings.
        names_pool: whether each says which pool it is about, as it must where there are several.
        words: says the words of tokens; None = they stay numbers.
    """
    if not findings:
        return []
    lines = [heading("findings")]
    for finding in findings[:MAX_FINDINGS]:
        lines += _finding(finding, names_pool=names_pool, words=words)
    rest = Counter(f"{finding.rule} {finding.name}" for finding in findings[MAX_FINDINGS:])
    if rest:
        kinds = ", ".join(f"{count:,} {name}" for name, count in rest.items())
        lines.append(line(f"and {rest.total():,} more: {kinds}", indent=1))
    return lines


def _finding(finding: Finding, *, names_pool: bool, words: TokenWords | None) -> list[Text]:
    label = "alternative" if finding.severity is None else str(finding.severity)
    first = line(
        (label, SEVERITY_STYLES[finding.severity]),
        f"  {finding.rule} {finding.name}: {printable(finding.summary)}",
        indent=1,
    )
    facts = [
        ("pool", pool_label(finding.key) if names_pool else ""),
        ("slots", _slots(finding)),
        ("requests", listed(finding.request_ids)),
        *_evidence(finding.evidence, words),
        ("or", listed(finding.alternatives)),
        ("settled by", printable(finding.settled_by)),
    ]
    return [first, *aligned([fact for fact in facts if fact[1]], indent=3)]


def _slots(finding: Finding) -> str:
    """The slots in ranges; a rule that lists some of them counts all in its evidence."""
    if not finding.slots:
        return ""
    count = finding.evidence.get("num_slots", len(finding.slots))
    return f"{ranges_label(finding.slots, most=MAX_RANGES)} ({count_label(count, 'slot')})"


def _evidence(evidence: Mapping[str, Any], words: TokenWords | None) -> Iterator[tuple[str, str]]:
    """A line for what is counted, and one for each of the first ranges and examples."""
    counted = [
        f"{name} {names_label(value) if name == COLUMNS else nested_label(value)}"
        for name, value in evidence.items()
        if name not in ("num_slots", *LISTED)
    ]
    yield ("evidence", ", ".join(counted))
    for kind, (title, label_of) in LISTED.items():
        for entry in evidence.get(kind, ())[:MAX_EXAMPLES]:
            yield (title, label_of(entry, words))
