"""An engine's log, explained: roots first, then what was not checked, then what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from kvaudit.core.fail_reason import reason_labels
from kvaudit.core.log_report import LoggedCause, LoggedSlot, LogNote, LogReport
from kvaudit.core.rule_text import RuleText
from kvaudit.render.labels import count_label, listed, ranges_label
from kvaudit.render.lines import aligned, heading, line
from kvaudit.render.printable import printable

# Roots in full: with their facts they fill a screen. They come ranked.
MAX_CAUSES: Final = 6
MAX_RANGES: Final = 8


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
    roots = count_label(len(report.causes), "root")
    ungrouped = f", {report.num_ungrouped:,} of them left out" if report.num_ungrouped else ""
    return f"{count_label(report.num_rows, 'row')} printed{ungrouped}: {roots}"


def _cause(cause: LoggedCause, rules: Mapping[str, RuleText]) -> list[Text]:
    root = cause.root
    first = f"{_slot_label(root)}: {' + '.join(reason_labels(root.reasons)) or 'no reason'}"
    behind = ranges_label((slot.slot for slot in cause.consequences), most=MAX_RANGES)
    facts = [
        ("says", cause.says),
        ("holds", _held(root)),
        ("rows", " · ".join(_rows(cause))),
        ("follows", f"slots {behind}: chained to it" if behind else ""),
        *(("proved", text) for text in cause.proved),
        ("could be", ", ".join(_named(rule, rules) for rule in cause.candidates)),
        ("cannot tell", cause.open),
        ("settled by", cause.settled_by),
    ]
    return [
        line((printable(first), "bold red")),
        *aligned([(name, printable(text)) for name, text in facts if text]),
    ]


def _slot_label(root: LoggedSlot) -> str:
    return f"window slot {root.slot}" if root.pool_kind == "SWA" else f"slot {root.slot}"


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
    root = cause.root
    yield f"{root.num_rows:,} of {listed(root.tags)}"
    if root.ranks:
        yield f"ranks {listed(root.ranks)}"
    if root.first_step is not None:
        until = f"-{root.last_step}" if root.last_step != root.first_step else ""
        yield f"read at step {root.first_step}{until}, which is later than the fault"


def _rest(causes: Sequence[LoggedCause]) -> list[Text]:
    if not causes:
        return []
    by_kind: dict[str, list[int]] = {}
    for cause in causes:
        by_kind.setdefault(cause.root.pool_kind, []).append(cause.root.slot)
    slots = "; ".join(
        f"{'window slots' if kind == 'SWA' else 'slots'} {ranges_label(slots, most=MAX_RANGES)}"
        for kind, slots in by_kind.items()
    )
    return [line(f"and {count_label(len(causes), 'more root', 'more roots')}: {slots}")]


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
