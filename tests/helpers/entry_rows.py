"""Blocks of entries as rows that a test can compare."""

from __future__ import annotations

from collections.abc import Iterator

from kvaudit.core.entries import EntryBlock

Row = tuple[int, int, int, int, int]


def rows_of(blocks: Iterator[EntryBlock]) -> list[Row]:
    return [
        row
        for block in blocks
        for row in zip(
            block.entry_indices.tolist(),
            block.slot_indices.tolist(),
            block.prev_slot_indices.tolist(),
            block.expected_tokens.tolist(),
            block.expected_positions.tolist(),
            strict=True,
        )
    ]
