"""The legs of a comparison: how many slots were matched, how, and how many of them differ."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvaudit.core.comparison import ComparedLeg
from kvaudit.render.lines import aligned, heading
from kvaudit.render.printable import printable

HEADER = ("leg", "matched", "by", "columns", "differing", "unmatched")


def leg_table(legs: Sequence[ComparedLeg]) -> list[Text]:
    """A row a leg; empty when nothing was compared with anything."""
    if not legs:
        return []
    rows: list[tuple[str | Text, ...]] = [HEADER]
    for leg in legs:
        differing = Text(f"{leg.slots_differing:,}", style="red" if leg.slots_differing else "")
        ways = [by for by, count in leg.matched.items() if count]
        left, right = leg.letters
        rows.append(
            (
                printable(leg.name),
                f"{leg.num_matched:,}",
                " + ".join(ways) or "-",
                f"{len(leg.columns):,}",
                differing,
                f"{leg.left_unmatched:,} of {left}, {leg.right_unmatched:,} of {right}",
            )
        )
    return [heading("legs"), *aligned(rows, right=(1, 3, 4))]
