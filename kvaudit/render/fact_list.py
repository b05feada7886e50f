"""Named values, a line each: what `show` and `doctor` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from kvaudit.render.labels import names_label
from kvaudit.render.lines import aligned
from kvaudit.render.printable import printable


def fact_list(facts: Mapping[str, Any]) -> list[Text]:
    """A line a fact; a mapping takes a line an item, and a list of mappings is a table at the end."""
    rows: list[tuple[str, str]] = []
    tables: list[Text] = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            items = [f"{printable(str(key))} {_word(item)}" for key, item in value.items()]
            rows += zip([name, *[""] * len(items)], items, strict=False)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            tables += [Text(), *_table(value)]
        elif name == "columns" and isinstance(value, list):
            rows.append((name, names_label(value) or "-"))
        else:
            rows.append((name, _word(value)))
    return [*aligned(rows, indent=0), *tables]


def _table(rows: list[Mapping[str, Any]]) -> list[Text]:
    return aligned(
        [[f"{name} {_word(value)}" for name, value in row.items()] for row in rows], indent=0
    )


def _word(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return printable(" ".join(str(item) for item in value)) or "-"
    return printable(str(value))
