"""This run's launches, a tag at a time."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvaudit.core.report import TagCounters
from kvaudit.render.lines import aligned, heading

HEADER = ("tag", "kernel runs", "slots run", "checked", "violations")


def tag_table(tags: Sequence[TagCounters]) -> list[Text]:
    """A row a tag; empty when nothing was launched."""
    if not tags:
        return []
    rows: list[tuple[str | Text, ...]] = [HEADER]
    for counters in tags:
        failed = Text(f"{counters.violations:,}", style="red" if counters.violations else "")
        rows.append(
            (
                counters.tag,
                f"{counters.kernel_runs:,}",
                f"{counters.slots_run:,}",
                f"{counters.checked:,}",
                failed,
            )
        )
    return [heading("launches"), *aligned(rows, right=(1, 2, 3, 4))]
