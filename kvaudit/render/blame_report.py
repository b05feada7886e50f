"""One slot as text: what is wrong with it, who reads it, what it holds, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from kvaudit.constants import CHAIN_ANCHOR, NO_EXPECTED_TOKEN
from kvaudit.core.blame_report import BlameReport, Relation
from kvaudit.core.finding import Finding
from kvaudit.core.layout import slot_label
from kvaudit.core.slot_facts import SlotRecord
from kvaudit.core.slot_readers import Neighbour, SlotClaim
from kvaudit.core.violation import Violation, hash_label
from kvaudit.render.blame_content import close_copies, column_lines, copy_lines, word_lines
from kvaudit.render.finding_list import finding_list
from kvaudit.render.labels import count_label, known_label, listed, place_label
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable
from kvaudit.render.reader_labels import reader_label, readers_label, unread_label
from kvaudit.render.token_labels import TokenWords
from kvaudit.render.violation_ring import reason_cells, with_word

# Claims, rows, and slots to ask for next that are listed.
MAX_CLAIMS: Final = 8
MAX_ROWS: Final = 12
MAX_SLOTS: Final = 3
# Findings that do not name the slot: a line each.
MAX_OTHERS: Final = 4


def blame_lines(report: BlameReport, *, call: str, words: TokenWords | None = None) -> list[Text]:
    """All of it; sections are parted by an empty line.

    Args:
        report: the slot.
        call: the command that asks for another slot of the pool, but for that slot.
        words: says the words of tokens, which are parts of prompts; None = they stay numbers.
    """
    sections = [
        [_headline(report)],
        _sentences("not compared", report.not_compared),
        _findings(report, words),
        _failed(report, words),
        _claims(report, words),
        _records(report, words),
        column_lines(report),
        word_lines(report),
        copy_lines(report),
        _neighbours(report, words),
        _evidence(report),
        _sentences("next", _next_steps(report, call=call)),
    ]
    lines: list[Text] = []
    for section in filter(None, sections):
        if lines:
            lines.append(Text())
        lines += section
    return lines


def _headline(report: BlameReport) -> Text:
    """`slot 873 (page 54 +9)  2 rows failed · KV304 kv-bit-flip · read by tale@9`."""
    named = [f"{found.rule} {found.name}" for found in report.related(Relation.NAMES)]
    before = [f"{found.rule} {found.name}" for found in report.related(Relation.BEFORE)]
    readers = [claim.reader for claim in report.claims if not claim.not_judged]
    failed = count_label(len(report.violations), "row")
    parts = [
        f"{failed} failed" if report.violations else "no row failed",
        *named,
        *(f"follows from {name}" for name in before),
        f"read by {readers_label(readers)}" if readers else unread_label(report),
    ]
    place = slot_label(report.slot, report.page_size)
    style = "bold red" if report.violations or named else "bold"
    return line((place, style), "  ", " · ".join(dict.fromkeys(filter(None, parts))))


def _sentences(title: str, sentences: Sequence[str]) -> list[Text]:
    if not sentences:
        return []
    return [heading(title), *(line(printable(sentence), indent=1) for sentence in sentences)]


def _findings(report: BlameReport, words: TokenWords | None) -> list[Text]:
    """The findings that name the slot in full, and a line for each of the others."""
    lines = finding_list(report.related(Relation.NAMES), names_pool=False, words=words)
    lines = lines or [heading("findings")]
    others = [found for found in report.findings if found.relation is not Relation.NAMES]
    for found in others[:MAX_OTHERS]:
        rule = f"{found.finding.rule} {found.finding.name}"
        label = f"{rule} {found.relation}: {printable(found.finding.summary)}"
        lines.append(line(label, indent=1))
    if len(others) > MAX_OTHERS:
        lines.append(line(f"and {len(others) - MAX_OTHERS:,} more", indent=1))
    if report.violations and len(report.findings) == len(report.related(Relation.TAINTS)):
        lines.append(line("no rule explains the rows that failed here", indent=1))
    return lines if len(lines) > 1 else []


def _failed(report: BlameReport, words: TokenWords | None) -> list[Text]:
    """A line a failed row and reason."""
    if not report.violations:
        return []
    cells = [cells for row in report.violations[:MAX_ROWS] for cells in _row_cells(row, words)]
    title = count_label(len(report.violations), "row")
    if len(report.violations) > MAX_ROWS:
        title = f"{MAX_ROWS} of {title} shown"
    return [line(("failed", "bold"), f"  {title}"), *aligned(cells)]


def _row_cells(row: Violation, words: TokenWords | None) -> Iterator[tuple[str, ...]]:
    launch = "bytes" if row.tag is None else row.tag.name
    for cells in reason_cells(row, words):
        yield (launch, listed(row.request_ids), *cells)


def _claims(report: BlameReport, words: TokenWords | None) -> list[Text]:
    """A line a claim; what is judged comes first."""
    if not report.claims:
        return []
    title = f"  {count_label(report.num_claims, 'claim')} on the slot"
    rest = report.num_claims - MAX_CLAIMS
    more = [line(f"and {rest:,} more", indent=1)] if rest > 0 else []
    cells = [_claim_cells(claim, report, words) for claim in report.claims[:MAX_CLAIMS]]
    return [line(("expected", "bold"), title), *aligned(cells), *more]


def _claim_cells(
    claim: SlotClaim, report: BlameReport, words: TokenWords | None
) -> tuple[str, ...]:
    reader = reader_label(claim.reader)
    state = f"{printable(claim.source)}{f', {claim.state}' if claim.state else ''}"
    if claim.not_judged and claim.prev_slot is None and not claim.is_head:
        return (reader, state, f"not judged: {claim.not_judged}")
    token = (
        "any token"
        if claim.token == NO_EXPECTED_TOKEN
        else f"token {with_word(claim.token, words)}"
    )
    position = f"position {claim.stored_position}"
    behind = "behind a slot that is not reachable"
    if claim.is_head:
        behind = "at the head of a chain"
    elif claim.prev_slot is not None:
        outside = claim.prev_slot >= report.num_slots
        label = place_label(claim.prev_slot, page_size=report.page_size, out_of_range=outside)
        behind = f"behind {label}"
    why = f"not judged: {claim.not_judged}" if claim.not_judged else ""
    return (reader, state, token, position, behind, why)


def _records(report: BlameReport, words: TokenWords | None) -> list[Text]:
    """A line a record column."""
    if not report.records:
        return []
    cells = [_record_cells(record, words) for record in report.records]
    return [heading("records"), *aligned(cells)]


def _record_cells(record: SlotRecord, words: TokenWords | None) -> tuple[str, ...]:
    if record.is_zero:
        return (record.buffer, "zero: no record")
    real = f"real_kv_hash {hash_label(record.real_kv_hash)}"
    expected = record.expected_real_kv_hash
    if expected is not None and expected != record.real_kv_hash:
        real += f", not {hash_label(expected)}"
    prev = hash_label(record.prev_hash)
    head = " (a head)" if record.prev_hash == CHAIN_ANCHOR else ""
    return (
        record.buffer,
        f"token {with_word(record.token, words)}",
        f"position {record.position}",
        f"prev_hash {prev}{head}",
        real,
    )


def _neighbours(report: BlameReport, words: TokenWords | None) -> list[Text]:
    """A line a slot."""
    if not report.neighbours:
        return []
    cells = [_neighbour_cells(neighbour, report, words) for neighbour in report.neighbours]
    return [heading("neighbours"), *aligned(cells)]


def _neighbour_cells(
    neighbour: Neighbour, report: BlameReport, words: TokenWords | None
) -> tuple[str, ...]:
    holds = "no record"
    if neighbour.token is not None:
        holds = f"token {with_word(neighbour.token, words)} at position {neighbour.position}"
    readers = readers_label(neighbour.readers)
    return (
        slot_label(neighbour.slot, report.page_size),
        readers or unread_label(report),
        holds if report.records else "",
        ", ".join(neighbour.roles),
    )


def _evidence(report: BlameReport) -> list[Text]:
    """What the allocator and the engine say, by column."""
    if not report.evidence:
        return []
    cells = [(name, printable(known_label(value))) for name, value in report.evidence.items()]
    return [heading("allocator and engine"), *aligned(cells)]


def _next_steps(report: BlameReport, *, call: str) -> list[str]:
    """The commands that tell more: of slots that this one follows from or shares with, and rules."""
    before, named = report.related(Relation.BEFORE), report.related(Relation.NAMES)
    others = before if report.violations else report.related(Relation.TAINTS)
    slots = [slot for finding in others for slot in _first_slot(finding, report)]
    if report.violations:
        slots += [copy.slot for copy in close_copies(report)[:1]]
    asked = [f"{call} {slot}" for slot in dict.fromkeys(slots) if slot != report.slot]
    rules = dict.fromkeys(finding.rule for finding in (*named, *before))
    return [*asked[:MAX_SLOTS], *(f"kvaudit explain {rule}" for rule in rules)]


def _first_slot(finding: Finding, report: BlameReport) -> Sequence[int]:
    """The slot of a finding to ask for: one before this slot, else the first; none outside the pool."""
    before = [claim.prev_slot for claim in report.claims if claim.prev_slot in finding.slots]
    slots = [slot for slot in (*before, *finding.slots) if slot is not None]
    return [slot for slot in slots if 0 <= slot < report.num_slots][:1]
