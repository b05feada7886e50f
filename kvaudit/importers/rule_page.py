"""The page of rules, as the package carries it: a copy of `docs/rules.md`, held equal by a test."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

from kvaudit.core.rule_text import RuleText

PAGE: Final = "rules.md"

_ROW: Final = re.compile(r"^\| (?P<rule>KV\d{3}) \| (?P<cells>.+) \|$", re.MULTILINE)
_MEANING_CELLS: Final = 4
_ADVICE_CELLS: Final = 2


def rule_texts() -> Mapping[str, RuleText]:
    """All rules in words, by id, ascending."""
    return parse_rules(resources.files(__package__).joinpath(PAGE).read_text(encoding="utf-8"))


def parse_rules(page: str) -> Mapping[str, RuleText]:
    """The rules of a page, by id, ascending.

    A rule has two rows: name, severity, meaning and evidence in one; its likely causes, parted by
    semicolons, and what to do next in the other.

    Raises:
        ValueError: a rule has two rows of a kind or lacks one, or a row has other cells.
    """
    meanings: dict[str, list[str]] = {}
    advice: dict[str, list[str]] = {}
    for row in _ROW.finditer(page):
        cells = row["cells"].split(" | ")
        kinds = {_MEANING_CELLS: meanings, _ADVICE_CELLS: advice}
        if len(cells) not in kinds or row["rule"] in kinds[len(cells)]:
            raise ValueError(f"{row['rule']}: no row of its own kind: {row[0]}")
        kinds[len(cells)][row["rule"]] = cells
    if halves := sorted(meanings.keys() ^ advice.keys()):
        raise ValueError(
            f"{', '.join(halves)}: a meaning without causes and a next step, or these alone"
        )
    return {rule: _text(rule, meanings[rule], advice[rule]) for rule in sorted(meanings)}


def _text(rule: str, meaning: list[str], advice: list[str]) -> RuleText:
    name, severity, says, evidence = map(_plain, meaning)
    causes, next_step = map(_plain, advice)
    return RuleText(
        id=rule,
        name=name,
        severity=severity,
        meaning=says,
        evidence=evidence,
        causes=tuple(causes.split("; ")),
        next_step=next_step,
    )


def _plain(cell: str) -> str:
    return cell.replace("`", "").strip()
