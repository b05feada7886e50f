"""The first lines of the report: the verdict with its scope, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from kvaudit.core.chain_entries import ChainCounters
from kvaudit.core.coverage import (
    INFORMING_COUNTS,
    LOWERING_COUNTS,
    NO_MAJORITY,
    POSITIONS_OPEN,
    Coverage,
    Family,
)
from kvaudit.core.report import Report, Verdict
from kvaudit.render.labels import count_label, percent_label
from kvaudit.render.lines import heading, line
from kvaudit.render.printable import printable

VERDICT_STYLES = {
    Verdict.CLEAN: "bold green",
    Verdict.VIOLATIONS: "bold red",
    Verdict.INCOMPLETE: "bold yellow",
}

# What a family alone finds.
_FAULTS: Final = {
    Family.RECORDS: "a slot written for another request or position",
    Family.BYTES: "overwritten or damaged KV",
}

# The same where layer 0 says whose KV a slot holds.
_FAULTS_BESIDE_IDENTITY: Final = {Family.BYTES: "overwritten or damaged KV past layer 0"}

# Counts that are said elsewhere, or are no gap.
_NO_GAP: Final = (*LOWERING_COUNTS, *INFORMING_COUNTS, POSITIONS_OPEN)

# What chains cannot tell, whatever they hold: CASES.md 2, T07, T09, T13, T15 and T23 among it.
_UNSEEN_BY_CHAINS: Final = """\
no expectations: a chain that agrees with itself is taken for right, so another request's chain, \
a wrong token and pages that changed places would not show
no expectations: a record that is lost, overwritten or has a flipped bit leaves its successors \
without a predecessor, and that is no violation"""


def scope_label(coverage: Coverage) -> str:
    """How much of each family was checked: `index 100% · bytes - (not stamped)`."""
    return " · ".join(_family_label(coverage, family) for family in Family)


def _family_label(coverage: Coverage, family: Family) -> str:
    covered = coverage.families.get(family)
    if covered is None or covered.ratio is None:
        why = coverage.absent.get(family, "nothing planned")
        return f"{family} - ({printable(why)})"
    extent = printable(covered.basis) or percent_label(covered.ratio)
    words = [str(family), extent, printable(covered.scope)]
    return " ".join(word for word in words if word)


def verdict_line(report: Report) -> Text:
    """`CLEAN  index 100% · records 100% · bytes - (not stamped) · identity - (no bytes)`."""
    return line(
        (str(report.verdict).upper(), VERDICT_STYLES[report.verdict]),
        "  ",
        scope_label(report.coverage),
    )


def not_checked(report: Report) -> list[Text]:
    """What the verdict says nothing about, a line each; empty when all was checked."""
    sentences = [
        *report.incomplete_reasons,
        *_missed_by_legs(report),
        *_missed_by_chains(report),
        *_missed_families(report),
        *_missed_entries(report.coverage),
        *_split_tokens(report.coverage),
        *_missed_positions(report.coverage),
        *_missed_launches(report.coverage),
        *_missed_slots(report),
        *_notes(report),
    ]
    if not sentences:
        return []
    return [
        heading("not checked"),
        *(line(printable(sentence), indent=1) for sentence in dict.fromkeys(sentences)),
    ]


def _notes(report: Report) -> Iterator[str]:
    """What is to be known of the files; why one is left out stands among the reasons already."""
    said = {(error.path, error.left_out_note(error.path or "")) for error in report.left_out}
    for file in report.inputs:
        for note in file.notes:
            if (file.path, note) not in said:
                yield f"{file.path}: {note}"


def _missed_families(report: Report) -> list[str]:
    """What would not show for want of a canary or a stamp; an incomplete report says it itself."""
    coverage = report.coverage
    if report.verdict is Verdict.INCOMPLETE:
        return []
    faults = _FAULTS
    if coverage.families.get(Family.IDENTITY) is not None:
        faults = _FAULTS_BESIDE_IDENTITY
    return [
        f"{family} ({coverage.absent[family]}): {fault} would not show"
        for family, fault in faults.items()
        if coverage.families.get(family) is None and family in coverage.absent
    ]


def _missed_by_chains(report: Report) -> list[str]:
    """What agrees with itself, for want of expectations, and what cannot be told."""
    if not report.chains:
        return []
    return [*_UNSEEN_BY_CHAINS.splitlines(), *filter(None, map(_unlinked, report.chains))]


def _unlinked(counters: ChainCounters) -> str:
    """The records of a launch whose place nothing confirms, and those that there are twice."""
    parts = []
    if counters.orphans:
        verb = "follows" if counters.orphans == 1 else "follow"
        parts.append(f"{count_label(counters.orphans, 'record')} {verb} none in the dump")
    if counters.duplicates:
        verb = "is" if counters.duplicates == 1 else "are"
        parts.append(
            f"{count_label(counters.duplicates, 'record')} {verb} held by a lower slot too: "
            "shared content, or a copy in a foreign place"
        )
    return f"{counters.tag}: {'; '.join(parts)}" if parts else ""


def _missed_entries(coverage: Coverage) -> list[str]:
    """A sentence a family that was covered in part, with its causes, and one of what was excused."""
    sentences = []
    for family in Family:
        covered = coverage.families.get(family)
        if covered is None:
            continue
        causes = [name for name in covered.details if name in LOWERING_COUNTS]
        others = [name for name in covered.details if name not in _NO_GAP]
        missed = covered.due - covered.checked
        if missed:
            because = _counts(covered.details, causes)
            sentences.append(
                f"{family}: {missed:,} of {covered.due:,} not checked"
                f"{f': {because}' if because else ''}"
            )
        if excused := _counts(covered.details, others if missed else [*causes, *others]):
            sentences.append(f"{family}: {excused}")
    return sentences


def _split_tokens(coverage: Coverage) -> list[str]:
    """The slots that contradict each other: no finding, and yet nothing that a sound pool has."""
    covered = coverage.families.get(Family.IDENTITY)
    num_split = 0 if covered is None else covered.details.get(NO_MAJORITY, 0)
    if not num_split:
        return []
    slots = count_label(num_split, "slot")
    what_tells = "a table would tell which (kvaudit learn, verify --layer0)"
    return [
        f"identity: {slots} of tokens whose slots disagree: some may be wrong, and {what_tells}"
    ]


def _missed_positions(coverage: Coverage) -> list[str]:
    """The slots whose K told nothing, such as for want of the model's rotation."""
    covered = coverage.families.get(Family.IDENTITY)
    num_open = 0 if covered is None else covered.details.get(POSITIONS_OPEN, 0)
    if not num_open:
        return []
    fault = "a row rotated for another position would not show"
    return [f"identity: {count_label(num_open, 'slot')} judged by V alone: {fault}"]


def _counts(details: Mapping[str, int], names: Sequence[str]) -> str:
    """The counts that are not 0: `3 skipped padding, 2 predecessor unreachable`."""
    return ", ".join(
        f"{details[name]:,} {name.replace('_', ' ')}" for name in names if details[name]
    )


def _missed_launches(coverage: Coverage) -> list[str]:
    if not coverage.disabled_launches:
        return []
    return [f"{count_label(coverage.disabled_launches, 'launch', 'launches')} disabled by the plan"]


def _missed_by_legs(report: Report) -> list[str]:
    """What of each leg of a comparison was not matched or compared."""
    return [f"{leg.name}: {sentence}" for leg in report.legs for sentence in leg.unchecked]


def _missed_slots(report: Report) -> list[str]:
    if report.legs:
        return []
    coverage = report.coverage
    unplanned = coverage.slots_pool - coverage.slots_planned
    if unplanned <= 0:
        return []
    why = "no expectation names them"
    if report.chains:
        why += ", and no record or stamp in them is judged"
    return [f"{unplanned:,} of {count_label(coverage.slots_pool, 'slot')}: {why}"]
