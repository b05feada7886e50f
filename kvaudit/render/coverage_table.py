"""Planned and checked, a family at a time."""

from __future__ import annotations

from rich.text import Text

from kvaudit.core.coverage import Coverage, Family
from kvaudit.render.labels import percent_label
from kvaudit.render.lines import aligned, heading

HEADER = ("family", "planned", "checked", "covered")


def coverage_table(coverage: Coverage) -> list[Text]:
    """A row a family, and one of slots."""
    rows: list[tuple[str, ...]] = [HEADER]
    for family in Family:
        covered = coverage.families.get(family)
        if covered is None:
            rows.append((str(family), "0", "0", "-"))
            continue
        ratio = "-" if covered.ratio is None else percent_label(covered.ratio)
        rows.append((str(family), f"{covered.planned:,}", f"{covered.checked:,}", ratio))
    rows.append(
        (
            "slots",
            f"{coverage.slots_planned:,}",
            f"{coverage.slots_checked:,}",
            f"of {coverage.slots_pool:,}",
        )
    )
    return [heading("coverage"), *aligned(rows, right=(1, 2, 3))]
