"""An engine's log, explained: roots first, then what was not checked, then what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from kvaudit.constants import FailReason
from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.log_report import LoggedCause, LoggedSlot, LogNote, LogReport
from kvaudit.core.rule_text import RuleText
from kvaudit.render.labels import count_label, listed, named, ranges_label
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable

# Causes in full: with their facts they fill a screen. They come ranked.
MAX_CAUSES: Final = 6
MAX_RANGES: Final = 8
MAX_HELD: Final = 3


def log_lines(report: LogReport, rules: Mapping[str, RuleText]) -> list[Text]:
    """The whole report; sections are parted by an empty line."""
    sections = [
        [heading(_headline(report))],
        _notes("not checked", report.not_checked, rules),
        *(_cause(cause, rules) for cause in report.causes[:MAX_CAUSES]),
        _rest(report.causes[MAX_CAUSES:]),
        _notes("also", report.notes, rules),
        [heading("next"), *(line(step, indent=1) for step in report.next_steps)],
    ]
    lines: list[Text] = []
    for section in filter(None, sections):
        lines += [Text(), *section] if lines else section
    return lines


def _headline(report: LogReport) -> str:
    if not report.num_rows:
        return "no violation is printed: that says nothing of what the canary does not check"
    num_roots, num_groups = sum(len(cause.roots) for cause in report.causes), len(report.causes)
    roots = count_label(num_roots, "root")
    groups = f" in {count_label(num_groups, 'group')}" if num_groups < num_roots else ""
    ungrouped = f", {report.num_ungrouped:,} of them left out" if report.num_ungrouped else ""
    return f"{count_label(report.num_rows, 'row')} printed{ungrouped}: {roots}{groups}"


def _cause(cause: LoggedCause, rules: Mapping[str, RuleText]) -> list[Text]:
    facts = [
        ("says", cause.says),
        *_contents(cause.roots),
        ("rows", " · ".join(_rows(cause))),
        ("follow", _slots(cause.consequences)),
        *(("proved", text) for text in cause.proved),
        ("could be", ", ".join(_named(rule, rules) for rule in cause.candidates)),
        ("cannot tell", cause.open),
        ("settled by", cause.settled_by),
    ]
    return [
        line((printable(_title(cause)), "bold red")),
        *aligned([(name, printable(text)) for name, text in facts if text]),
    ]


def _title(cause: LoggedCause) -> str:
    reasons = FailReason(0)
    for root in cause.roots:
        reasons |= root.reasons
    return f"{_slots(cause.roots)}: {' + '.join(reason_labels(reasons)) or 'no reason'}"


def _slots(slots: Sequence[LoggedSlot]) -> str:
    """`slot 4`, `window slots 4-5,9 (3 slots)`; "" of none."""
    numbers = sorted({slot.slot for slot in slots})
    if not numbers:
        return ""
    pool = "window " if slots[0].pool_kind == "SWA" else ""
    if len(numbers) == 1:
        return f"{pool}slot {numbers[0]}"
    return f"{pool}slots {ranges_label(numbers, most=MAX_RANGES)} ({len(numbers):,} slots)"


def _contents(roots: Sequence[LoggedSlot]) -> Iterator[tuple[str, str]]:
    """A line for each of the first."""
    for number, root in enumerate(roots[:MAX_HELD]):
        held = _held(root)
        name = "" if number else "holds"
        yield name, held if len(roots) == 1 else f"slot {root.slot}: {held}"


def _held(root: LoggedSlot) -> str:
    what = "given" if root.is_write else "stored"
    words = [f"{what} position {root.position}"]
    if root.token is not None:
        words.append(f"token {root.token}")
    if root.expected_tokens:
        words.append(f"expected token {listed(root.expected_tokens)}")
    if root.expected_positions:
        words.append(f"expected position {listed(root.expected_positions)}")
    return ", ".join(words)


def _rows(cause: LoggedCause) -> Iterator[str]:
    """How often the same was printed, where, and when."""
    roots = cause.roots
    count = sum(root.num_rows for root in roots)
    yield f"{count:,} of {listed(list(dict.fromkeys(tag for root in roots for tag in root.tags)))}"
    ranks = list(dict.fromkeys(rank for root in roots for rank in root.ranks))
    if ranks:
        yield named("rank", ranks)
    steps = [
        step for root in roots for step in (root.first_step, root.last_step) if step is not None
    ]
    if steps:
        until = f"-{max(steps)}" if max(steps) != min(steps) else ""
        yield f"read at step {min(steps)}{until}, which is later than the fault"


def _rest(causes: Sequence[LoggedCause]) -> list[Text]:
    """Where there are too many to show: the roots of each pool."""
    if not causes:
        return []
    by_kind: dict[str, list[LoggedSlot]] = {}
    for cause in causes:
        by_kind.setdefault(cause.roots[0].pool_kind, []).extend(cause.roots)
    slots = "; ".join(map(_slots, by_kind.values()))
    return [line(f"and {count_label(len(causes), 'more cause')}: {slots}")]


def _notes(title: str, notes: Sequence[LogNote], rules: Mapping[str, RuleText]) -> list[Text]:
    if not notes:
        return []
    return [
        heading(title),
        *(
            line(
                f"{_named(note.rule, rules)}: " if note.rule else "", printable(note.text), indent=1
            )
            for note in notes
        ),
    ]


def _named(rule: str, rules: Mapping[str, RuleText]) -> str:
    return f"{rule} {rules[rule].name}" if rule in rules else rule
