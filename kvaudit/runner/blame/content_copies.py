"""Which slots share content with one slot: records and KV columns, joined by their hashes.

Hashes that the file has are joined over all columns. Where there are bytes alone a whole column is
folded to be searched, so that only some are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.backend import Backend
from kvaudit.core.layout import rows_per_page
from kvaudit.core.slot_facts import ColumnDigests, ContentCopy
from kvaudit.core.snapshot import DigestGrain, Snapshot

# KV bytes that are folded for the search, one column at least.
MAX_SEARCHED_BYTES: Final = 2 << 30
# Slots that are listed.
MAX_COPIES: Final = 16
# A record that is the same counts for more than all columns.
_RECORD_WEIGHT: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class ContentCopies:
    """The search for what one row holds, and for what was stamped in it.

    Fields:
        snapshot: the pool.
        backend: what folds.
        row: the row.
        columns: its KV columns.
        slot_hashes: slot hash of each row by record column, shape [num_rows] each, uint64.
        max_bytes: KV bytes to fold at most, but for the first column.
    """

    snapshot: Snapshot
    backend: Backend
    row: int
    columns: Sequence[ColumnDigests]
    slot_hashes: Mapping[str, NDArray[np.uint64]]
    max_bytes: int = MAX_SEARCHED_BYTES

    @cached_property
    def searched(self) -> tuple[str, ...]:
        """The columns whose content is searched for in every row, those that differ first."""
        ordered = sorted(self.columns, key=lambda column: column.written == column.held)
        found, spent = [], 0
        for column in ordered:
            if column.held is None:
                continue
            if column.name not in self.snapshot.digests:
                kv = self.snapshot.kv[column.name]
                cost = kv.num_rows * kv.read_bytes
                if spent and spent + cost > self.max_bytes:
                    continue
                spent += cost
            found.append(column.name)
        return tuple(found)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The rows that share content, shape [n], int64, those that share most first.

        Where digests are of pages, the first row of each page.
        """
        scores = np.zeros(self.snapshot.num_rows, dtype=np.int64)
        for hashes in self.slot_hashes.values():
            if hashes[self.row]:
                scores[hashes == hashes[self.row]] += _RECORD_WEIGHT
        for column in self.columns:
            self._score_column(column, scores)
        scores[~self._may_be_copies] = 0
        found = np.flatnonzero(scores)
        order = np.argsort(-scores[found], kind="stable")
        rows: NDArray[np.int64] = found[order]
        return rows

    def _score_column(self, column: ColumnDigests, scores: NDArray[np.int64]) -> None:
        """Count a column for the rows that share it; zero bytes are no content."""
        stamps = self._stamps(column)
        if stamps is not None and column.held:
            scores[stamps == np.uint64(column.held)] += 1
        if column.name not in self.searched:
            return
        held = self._held_by_all(column.name)
        for value in {column.held, column.written}:
            if value:
                scores[held == np.uint64(value)] += 1

    def _stamps(self, column: ColumnDigests) -> NDArray[np.uint64] | None:
        stamped = self.snapshot.stamped.get(column.name)
        return None if stamped is None else stamped.read().view(np.uint64)

    def _held_by_all(self, name: str) -> NDArray[np.uint64]:
        """The hash of every row of a column now, shape [num_rows], uint64."""
        digests = self.snapshot.digests.get(name)
        if digests is not None:
            dumped: NDArray[np.uint64] = digests.read().view(np.uint64)
            return dumped
        every_row = np.arange(self.snapshot.num_rows, dtype=np.int64)
        return self.backend.fold(self.snapshot.kv[name], every_row)

    @cached_property
    def _may_be_copies(self) -> NDArray[np.bool_]:
        """Rows other than the row's own, one a page where digests are of pages; [num_rows], bool."""
        snapshot = self.snapshot
        if snapshot.digest_grain is DigestGrain.SLOT:
            others = np.ones(snapshot.num_rows, dtype=np.bool_)
            others[self.row] = False
            return others
        counts = rows_per_page(snapshot.slots, snapshot.page_size)
        others = np.zeros(snapshot.num_rows, dtype=np.bool_)
        others[np.cumsum(counts) - counts] = True
        pages = snapshot.slots // snapshot.page_size
        others &= pages != pages[self.row]
        return others

    def first(self) -> list[ContentCopy]:
        """The first rows with all that they share, of all columns; nobody reads them yet."""
        rows = self.rows[:MAX_COPIES]
        same: list[list[str]] = [[] for _ in rows]
        stamped: list[list[str]] = [[] for _ in rows]
        written: list[list[str]] = [[] for _ in rows]
        for column in self.columns if rows.size else ():
            held, stamps = self._held_by(column.name, rows), self._stamps(column)
            for number, row in enumerate(rows.tolist()):
                if held is not None and column.held and held[number] == column.held:
                    same[number].append(column.name)
                elif held is not None and column.written and held[number] == column.written:
                    written[number].append(column.name)
                if stamps is not None and column.held and stamps[row] == column.held:
                    stamped[number].append(column.name)
        return [
            ContentCopy(
                slot=int(self.snapshot.slots[row]),
                same_records=self._same_records(row),
                same_columns=tuple(same[number]),
                stamped_columns=tuple(stamped[number]),
                written_columns=tuple(written[number]),
            )
            for number, row in enumerate(rows.tolist())
        ]

    def _same_records(self, row: int) -> tuple[str, ...]:
        return tuple(
            buffer
            for buffer, hashes in self.slot_hashes.items()
            if hashes[row] and hashes[row] == hashes[self.row]
        )

    def _held_by(self, name: str, rows: NDArray[np.int64]) -> list[int] | None:
        """The hash of a column now in a few rows, shape [n], int64; None without any."""
        digests = self.snapshot.digests.get(name)
        if digests is not None:
            dumped: list[int] = digests.read().view(np.uint64)[rows].tolist()
            return dumped
        column = self.snapshot.kv.get(name)
        if column is None:
            return None
        ascending, places = np.unique(rows, return_inverse=True)
        folded: list[int] = self.backend.fold(column, ascending)[places].tolist()
        return folded
