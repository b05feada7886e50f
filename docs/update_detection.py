"""Renews docs/detection.md: what an audit makes of every fault class, in every kind of dump.

Run `python -m docs.update_detection` after a change of a rule; a test compares. It takes a minute:
every cell is an audit of a pool that the fault was put into, as `kvaudit inject` does it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.detection_matrix import (
    CONTENTS,
    EXPECTATIONS,
    NAMED,
    UNSEEN,
    Matrix,
    View,
    views,
)
from docs.detection_pools import LAYOUTS
from kvaudit.runner.inject import FAULT_CLASSES, FaultClass

PAGE: Final = Path(__file__).parent / "detection.md"

# The outcomes of a class in a view, by layout; a layout that cannot have the fault is absent.
Cell = Mapping[str, frozenset[str]]
Outcomes = Mapping[str, Mapping[View, Cell]]

# What layer 0 tells needs no stamp, but tokens that come again: docs/identity.md is on that.
_OF_LAYER_0: Final = ("KV210", "KV211")
CLASSES: Final = tuple(fault for fault in FAULT_CLASSES if fault.rule not in _OF_LAYER_0)

_OF_RECORDS: Final = tuple(f"KV20{number}" for number in range(1, 10))
_OF_BYTES: Final = ("KV301", "KV302", "KV303", "KV304", "KV305", "KV308", "KV309", "KV310")
_OF_NUMBERS: Final = ("KV306", "KV307")


@dataclass(frozen=True, kw_only=True)
class BlindSpot:
    """Dumps in which some classes leave no trace, in words; `covers` says which views they are."""

    text: str
    rules: Sequence[str]
    covers: Callable[[View], bool]


BLIND_SPOTS: Final = (
    BlindSpot(
        text="**Without a stamp no change of bytes shows.** Nothing says what they were. Late "
        "writers, flipped bits and zero tails that left the records alone read CLEAN, with "
        "`bytes - (not stamped)` beside it.",
        rules=_OF_BYTES,
        covers=lambda view: view.stamps == "none",
    ),
    BlindSpot(
        text="**A partial stamp is blind outside its columns.** Here K of layer 0 alone is "
        "stamped, as SGLang's canary does: a bit of another layer, of V or of a side buffer may "
        "turn over unseen. A fault that changes whole slots shows all the same.",
        rules=("KV304", "KV308"),
        covers=lambda view: view.stamps == "partial",
    ),
    BlindSpot(
        text="**Digests hide numbers.** A NaN that was stamped as it is has a digest like any "
        "other, and so has a poisoned reserved slot: only bytes with a dtype show them.",
        rules=_OF_NUMBERS,
        covers=lambda view: view.content != "bytes",
    ),
    BlindSpot(
        text="**A wrong token that was stamped and chained agrees with itself.** It takes tokens to "
        "see it; so does a whole foreign chain from position 0 on (`docs/CASES.md`, T13).",
        rules=("KV201",),
        covers=lambda view: "no tokens" in view.expectations,
    ),
    BlindSpot(
        text="**A plan has no lengths and no live slots.** What the tables say of each other takes "
        "sequences: lengths, the map of a window, the allocator's live slots and references.",
        rules=("KV104", "KV105", "KV106", "KV108"),
        covers=lambda view: view.expectations.startswith("plan"),
    ),
    BlindSpot(
        text="**Without expectations a chain that agrees with itself is right.** What shows then "
        "are positions that do not follow, stamped bytes that changed, NaN, and what the allocator "
        "says against itself.",
        rules=(
            *("KV101", "KV102", "KV104", "KV105", "KV106", "KV108", "KV311"),
            *(rule for rule in _OF_RECORDS if rule != "KV204"),
        ),
        covers=lambda view: view.expectations == "none",
    ),
    BlindSpot(
        text="**Digests of pages have no records**, and no slots but those in use: what is wrong in "
        "records alone, or on a free slot, is not in such a dump.",
        rules=("KV107", *_OF_RECORDS),
        covers=lambda view: view.content == "digests of pages",
    ),
)
_EVERYWHERE: Final = """\
And in every dump: slots that nobody names have no expectation; what was wrong before it was stamped \
stamps as well as anything else, NaN apart; an entry that a stale map sends to slot 0 is skipped \
(T15). What KV105 to KV108 judge are columns that a dump may lack. [README](../README.md) says more \
under *What a verdict covers*."""

_HEAD: Final = """\
Every cell is an audit: a fault class was put into a small clean pool, as `kvaudit inject` does it, \
and the damaged pool was seen through a dump that keeps more or less of it. `python -m \
docs.update_detection` renews this page, and a test compares. [rules.md](rules.md) explains the rules. \
What layer 0 tells without a stamp, KV210 and KV211, is in [identity.md](identity.md)."""

_LEGEND: Final = """\
## The matrix

| cell | meaning |
| --- | --- |
| ● | named by its rule, as an error |
| KV301 | seen, and named by that rule in its place; in parentheses where it is an alternative only |
| rows | seen as failed rows that no rule explains |
| · | not seen |
| a or b | one or the other: by the place that the fault went to, or by the layout, as listed at the end |
| (empty) | such a dump cannot have the fault |
"""
_COLUMNS: Final = """\
Columns are what is stamped, and what the dump is judged by. *none*: records without a hash of the \
KV; *part*: K of layer 0, by its column and in the records; *all*: every column. S: sequences; s: \
sequences without tokens; P: a plan; p: a plan that judges no tokens; 0: nothing. Every cell stands \
for all layouts: {layouts}."""
_WORDS: Final = {NAMED: "●", UNSEEN: "·"}
_SHORT_STAMPS: Final = {"none": "none", "partial": "part", "all": "all"}
_SHORT_EXPECTATIONS: Final = dict(zip(EXPECTATIONS, "SsPp0", strict=True))


def measured() -> Outcomes:
    """Every cell, by rule."""
    matrix = Matrix()
    found: dict[str, dict[View, dict[str, frozenset[str]]]] = {}
    for fault in CLASSES:
        cells = found.setdefault(fault.rule, {})
        for layout in LAYOUTS:
            for view, outcomes in matrix.outcomes(fault, layout).items():
                cells.setdefault(view, {})[layout.name] = outcomes
    return found


def check_blind_spots(outcomes: Outcomes) -> None:
    """Each says what is so, and all together say of every cell that is not seen why.

    Raises:
        ValueError: the words and the matrix contradict each other.
    """
    unseen = {
        (rule, view)
        for rule, cells in outcomes.items()
        for view, cell in cells.items()
        if any(UNSEEN in found for found in cell.values())
    }
    told = set()
    for spot in BLIND_SPOTS:
        covered = {
            (rule, view) for rule, view in unseen if rule in spot.rules and spot.covers(view)
        }
        for rule in spot.rules:
            if not any(rule == each for each, _ in covered):
                raise ValueError(f"{rule} is seen, against: {spot.text}")
        told |= covered
    if untold := unseen - told:
        raise ValueError(f"no blind spot says why these are not seen: {sorted(untold, key=str)}")


def page(outcomes: Outcomes) -> str:
    """The page as it should stand."""
    check_blind_spots(outcomes)
    layouts = ", ".join(layout.name for layout in LAYOUTS)
    parts = [
        f"# What is detected, and what is not\n\n{_wrapped(_HEAD)}\n\n## Blind spots\n\n",
        *(f"{_wrapped('- ' + spot.text)}\n" for spot in BLIND_SPOTS),
        f"\n{_wrapped(_EVERYWHERE)}\n\n{_LEGEND}\n{_wrapped(_COLUMNS.format(layouts=layouts))}\n",
        *(f"\n### {name.capitalize()}\n\n{_table(name, outcomes)}" for name in CONTENTS),
        f"\n### Where layouts differ\n\n{_differences(outcomes)}",
    ]
    return "".join(parts)


def _wrapped(text: str) -> str:
    """A paragraph, or a point of a list, in lines of the width that the pages have."""
    indent = "  " if text.startswith("- ") else ""
    lines = textwrap.wrap(text, 120, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def _table(content: str, outcomes: Outcomes) -> str:
    columns = [view for view in views() if view.content == content]
    names = [f"{_SHORT_STAMPS[v.stamps]} {_SHORT_EXPECTATIONS[v.expectations]}" for v in columns]
    lines = [f"| fault | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    for fault in CLASSES:
        cells = [_words(outcomes[fault.rule].get(view, {})) for view in columns]
        lines.append(f"| {fault.rule} {fault.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _words(cell: Cell) -> str:
    found = {outcome for outcomes in cell.values() for outcome in outcomes}
    return " or ".join(_WORDS.get(outcome, outcome) for outcome in sorted(found, key=_rank))


def _rank(outcome: str) -> tuple[bool, bool, str]:
    return outcome == UNSEEN, outcome != NAMED, outcome


def _differences(outcomes: Outcomes) -> str:
    """A point for each class that is another one's, or none's, in some layout, or cannot be there."""
    points = [point for fault in CLASSES for point in _points_of(fault, outcomes[fault.rule])]
    return "".join(f"{_wrapped('- ' + point)}\n" for point in points)


def _points_of(fault: FaultClass, cells: Mapping[View, Cell]) -> Iterator[str]:
    possible = {layout for cell in cells.values() for layout in cell}
    absent = [layout.name for layout in LAYOUTS if layout.name not in possible]
    if absent:
        yield f"{fault.rule} {fault.name} cannot be in a {', '.join(absent)}: it needs {fault.needs}."
    where: dict[str, list[str]] = {}
    for view, cell in cells.items():
        by_words: dict[str, list[str]] = {}
        for layout, found in cell.items():
            by_words.setdefault(_words({layout: found}), []).append(layout)
        if len(by_words) > 1:
            told = "; ".join(f"{words} in {', '.join(names)}" for words, names in by_words.items())
            column = f"{_SHORT_STAMPS[view.stamps]} {_SHORT_EXPECTATIONS[view.expectations]}"
            where.setdefault(told, []).append(f"{view.content} {column}")
    for told, views_of_it in where.items():
        yield f"{fault.rule} {fault.name} ({', '.join(views_of_it)}): {told}."


def main() -> None:
    """Rewrite the page in place."""
    PAGE.write_text(page(measured()), encoding="utf-8")


if __name__ == "__main__":
    main()
