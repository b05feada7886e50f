"""The rows of the report, grouped by slot: whose it is, what differed, stored against expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.text import Text

from kvaudit.constants import FailReason
from kvaudit.core.fail_reason import REASON_LABELS
from kvaudit.core.report import Report
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation, hash_label
from kvaudit.render.labels import (
    column_labels,
    known_label,
    listed,
    named,
    page_label,
    place_label,
    pool_label,
)
from kvaudit.render.lines import aligned, line
from kvaudit.render.token_labels import TokenWords, token_label

Pair = tuple[object, object]

# What a reason compares: (stored, expected) of a row.
COMPARED: Final[dict[FailReason, Callable[[Violation], Pair]]] = {
    FailReason.VERIFY_CHAIN_HASH_MISMATCH: lambda row: (
        hash_label(row.chain_hash),
        hash_label(row.expected_chain_hash),
    ),
    FailReason.VERIFY_POSITION_MISMATCH: lambda row: (row.position, row.expected_position),
    FailReason.VERIFY_REAL_KV_HASH_MISMATCH: lambda row: (
        hash_label(row.real_kv_hash),
        hash_label(row.expected_real_kv_hash),
    ),
    FailReason.WRITE_TOKEN_MISMATCH: lambda row: (row.token, row.expected_token),
    FailReason.WRITE_POSITION_MISMATCH: lambda row: (row.position, row.expected_position),
    FailReason.VERIFY_TOKEN_MISMATCH: lambda row: (row.token, row.expected_token),
}
TOKEN_REASONS: Final = (FailReason.WRITE_TOKEN_MISMATCH, FailReason.VERIFY_TOKEN_MISMATCH)


def violation_ring(report: Report, words: TokenWords | None = None) -> list[Text]:
    """The rows shown, a group a slot in slot order; empty when nothing failed.

    Args:
        report: the report.
        words: says the words of tokens; None = they stay numbers.
    """
    if not report.violations_total:
        return []
    lines = [
        line(
            ("violations", "bold"),
            f"  {len(report.violations):,} of {report.violations_total:,} shown",
        )
    ]
    page_sizes = report.page_sizes
    for rows in _by_slot(report.violations, pools=list(page_sizes)):
        page_size = page_sizes[rows[0].key]
        names_pool = len(page_sizes) > 1
        place = place_label(
            rows[0].slot,
            page_size=page_size,
            out_of_range=bool(rows[0].reasons & FailReason.SLOT_OUT_OF_RANGE),
        )
        if rows[0].key in report.paged_pools and rows[0].tag is None:
            place = page_label(rows[0].slot, page_size=page_size)
        lines += _slot_group(rows, place=place, names_pool=names_pool, words=words)
    return lines


def _by_slot(
    violations: Sequence[Violation], *, pools: Sequence[PoolKey]
) -> Iterator[list[Violation]]:
    """The rows of each slot, pool by pool in the report's order."""
    number = {key: idx for idx, key in enumerate(pools)}

    def place(row: Violation) -> tuple[int, int]:
        return (number[row.key], row.slot)

    for _, rows in groupby(sorted(violations, key=place), key=place):
        yield list(rows)


def _slot_group(
    rows: Sequence[Violation], *, place: str, names_pool: bool, words: TokenWords | None
) -> list[Text]:
    first = rows[0]
    requests = list(dict.fromkeys(name for row in rows for name in row.request_ids))
    positions = list(dict.fromkeys(p for row in rows if (p := _due_position(row)) is not None))
    title = [(place, "bold red")]
    if names_pool:
        title.append((f"  pool {pool_label(first.key)}", ""))
    if requests:
        title.append((f"  {named('request', requests)}", ""))
    if positions:
        title.append((f"  {named('position', positions)}", ""))
    cells = [
        (*_launch_cells(row, whose=len(requests) > 1, where=len(positions) > 1), *details)
        for row in rows
        for details in reason_cells(row, words)
    ]
    return [line(*title, indent=1), *aligned(cells, indent=2)]


def _due_position(row: Violation) -> int | None:
    """Where the slot stands in its sequence, else where its record says it does."""
    return row.position if row.expected_position is None else row.expected_position


def _launch_cells(row: Violation, *, whose: bool, where: bool) -> tuple[str, ...]:
    """The launch of a row, with the request and the position where its slot has several."""
    if row.tag is None:
        return ("bytes",)
    launch = row.tag.name
    if whose:
        launch += f" {listed(row.request_ids)}"
    if where:
        launch += f" @{_due_position(row)}"
    return (launch,)


def reason_cells(row: Violation, words: TokenWords | None) -> Iterator[tuple[str, ...]]:
    """One line a reason."""
    for reason, label in REASON_LABELS.items():
        if row.reasons & reason:
            yield (label, *_details(row, reason, words))


def _details(row: Violation, reason: FailReason, words: TokenWords | None) -> tuple[str, ...]:
    if reason in COMPARED:
        labels = [known_label(value) for value in COMPARED[reason](row)]
        if reason in TOKEN_REASONS and words is not None:
            labels = [with_word(value, words) for value in COMPARED[reason](row)]
        return (f"stored {labels[0]}", f"expected {labels[1]}")
    if reason == FailReason.COLUMN_DIGEST_MISMATCH:
        return column_labels(row.columns)
    if reason == FailReason.PREV_SLOT_OUT_OF_RANGE:
        return ("the predecessor is outside the pool",)
    return ()


def with_word(value: object, words: TokenWords | None) -> str:
    """A token as its number and its word, where one is known."""
    if words is None or not isinstance(value, int) or words.text_of([value]) is None:
        return known_label(value)
    return f"{value} {token_label(value, words)}"
