"""The chains that records form, a tag at a time, where nothing says what should be there."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvaudit.core.chain_entries import ChainCounters
from kvaudit.render.lines import aligned, heading

HEADER = ("tag", "records", "heads", "orphans", "forks", "chains", "duplicates")


def chain_table(chains: Sequence[ChainCounters]) -> list[Text]:
    """A row a tag; empty where all pools have expectations."""
    if not chains:
        return []
    rows = [
        HEADER,
        *(
            (
                counters.tag,
                f"{counters.records:,}",
                f"{counters.heads:,}",
                f"{counters.orphans:,}",
                f"{counters.forks:,}",
                f"{counters.chains:,}",
                f"{counters.duplicates:,}",
            )
            for counters in chains
        ),
    ]
    return [heading("chains"), *aligned(rows, right=range(1, len(HEADER)))]
