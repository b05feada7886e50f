"""What the KV of rows that failed hashed to when it was stamped, and what it hashes to now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason, RealKvHashMode
from kvaudit.core.column_names import column_half, column_layer, column_order, tail_of
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.pool_content import PoolContent
from kvaudit.diagnosis.explanation import Explanation
from kvaudit.diagnosis.record_view import RecordView
from kvaudit.diagnosis.row_sets import among, differing_at, union_of
from kvaudit.errors import InternalError
from kvaudit.kernels.hash.arrays import bits_set

REAL: Final = FailReason.VERIFY_REAL_KV_HASH_MISMATCH

# Causes of one rule that are findings of their own.
MAX_CAUSES: Final = 1000

# A stored hash this near to the expected one is a record whose bits turned over.
_MAX_FLIPPED_BITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channel:
    """Hashes of the same KV, then and now: of one column, or of a half's combined ones.

    Fields:
        name: the KV column, such as `kv.k.0`, or the record column, such as `k.tail`.
        written: hash that was stamped of each row, shape [num_rows], uint64.
        rows: rows that differ and are not explained, shape [n], int64, ascending.
        held: hash of what each of them holds now, shape [n], uint64.
    """

    name: str
    written: NDArray[np.uint64]
    rows: NDArray[np.int64]
    held: NDArray[np.uint64]

    @property
    def is_column(self) -> bool:
        """Whether it is of one column."""
        return self.name.startswith("kv.")


@dataclass(frozen=True, kw_only=True, eq=False)
class ByteView:
    """The KV of one pool as far as no rule has explained it yet.

    A row whose record is not explained is left out: what stands there may have its own bytes.

    Fields:
        evidence: the pool.
        views: its failed rows, launch by launch.
        open_columns: rows whose difference is not explained yet, by KV column; int64, ascending.
    """

    evidence: PoolEvidence
    views: Sequence[RecordView]
    open_columns: Mapping[str, NDArray[np.int64]]

    @cached_property
    def content(self) -> PoolContent:
        """What the slots hold."""
        if self.evidence.content is None:
            raise InternalError("rows failed in a pool without content")
        return self.evidence.content

    @cached_property
    def kv_columns(self) -> tuple[str, ...]:
        """The columns of layers that the dump has bytes or digests of, in layer order."""
        snapshot = self.evidence.snapshot
        names = sorted({*snapshot.kv, *snapshot.digests}, key=column_order)
        return tuple(name for name in names if column_layer(name) is not None)

    def channels(self) -> list[Channel]:
        """What differs and is open: column by column in layer order, then the combined hashes."""
        misplaced = self._misplaced_rows()
        found = []
        for name in sorted(self.open_columns, key=column_order):
            rows = np.setdiff1d(self.open_columns[name], misplaced)
            if rows.size:
                differing, held = self.evidence.differing[name], self._held(name)
                found.append(
                    Channel(
                        name=name,
                        written=self.stamps(name),
                        rows=rows,
                        held=held[np.searchsorted(differing, rows)],
                    )
                )
        return found + list(self._combined_channels(misplaced).values())

    def _misplaced_rows(self) -> NDArray[np.int64]:
        return union_of([view.rows.rows[view.with_open(RECORD_REASONS)] for view in self.views])

    def _combined_channels(self, misplaced: NDArray[np.int64]) -> dict[str, Channel]:
        found: dict[str, Channel] = {}
        if self.evidence.snapshot.real_kv_hash_mode is RealKvHashMode.NONE:
            return found
        for view in self.views:
            failed = view.with_open(REAL)
            rows, firsts = np.unique(view.rows.rows[failed], return_index=True)
            held = view.rows.expected_real_kv_hashes[failed[firsts]]
            flipped = bits_set(view.real_kv_hashes[rows] ^ held) <= _MAX_FLIPPED_BITS
            sound = ~flipped & (view.records[rows] != 0).any(axis=1)
            sound &= ~np.isin(rows, misplaced)
            if sound.any() and view.buffer not in found:
                found[view.buffer] = Channel(
                    name=view.buffer,
                    written=view.real_kv_hashes,
                    rows=rows[sound],
                    held=held[sound],
                )
        return found

    def stamps(self, column: str) -> NDArray[np.uint64]:
        """The hash of each row of a column when it was stamped, shape [num_rows], uint64.

        Where a dump has digests beside the bytes, and no stamps, they are what differs.
        """
        snapshot = self.evidence.snapshot
        values = snapshot.stamped.get(column) or snapshot.digests[column]
        hashes: NDArray[np.uint64] = values.read().view(np.uint64)
        return hashes

    @cached_property
    def _held_by_column(self) -> dict[str, NDArray[np.uint64]]:
        return {}

    def _held(self, column: str) -> NDArray[np.uint64]:
        """The hash now of each differing row of a column, explained or not; folded once."""
        if column not in self._held_by_column:
            hashes = self.content.source_hashes(column, self.evidence.differing[column])
            if hashes is None:
                raise InternalError(f"{column} differs from its stamps and has no hashes")
            self._held_by_column[column] = hashes
        return self._held_by_column[column]

    def rows(self) -> NDArray[np.int64]:
        """Every row with an open difference, shape [n], int64, ascending."""
        return union_of([channel.rows for channel in self.channels()])

    def sources_of(self, half: KvHalf) -> tuple[str, ...]:
        """The columns of a half's combined hash, in fold order."""
        names = self.evidence.snapshot.stamped_columns
        return tuple(name for name in names if column_half(name) is half)

    def half_of(self, channel: Channel) -> KvHalf:
        """The half whose combined hash a channel is of, or is in."""
        if channel.is_column:
            return column_half(channel.name)
        return next(half for half in KvHalf if tail_of(half) == channel.name)

    @cached_property
    def first_claims(self) -> NDArray[np.int64]:
        """The first claim on each row, shape [num_rows], int64; -1 where nobody claims it."""
        claims = self.evidence.claims
        first = np.full(self.evidence.snapshot.num_rows, -1, dtype=np.int64)
        claimed = np.flatnonzero(claims.rows >= 0)[::-1]
        first[claims.rows[claimed]] = claimed
        return first

    @cached_property
    def claimed_rows(self) -> NDArray[np.int64]:
        """Every row that anybody claims, shape [n], int64, ascending."""
        return np.flatnonzero(self.first_claims >= 0)

    def runs(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Rows, shape [n], int64, in runs that follow one another in a sequence that claims them.

        Rows that nobody claims follow one another where their slots do.
        """
        if not rows.size:
            return []
        claims, slots = self.evidence.claims, self.evidence.snapshot.slots
        hashed, rows = np.unique(rows), self.evidence.snapshot.hashed_with(rows)
        first = self.first_claims[rows]
        order = np.argsort(first, kind="stable")
        rows, first = rows[order], first[order]
        number = np.append(claims.sequence_numbers, -1)[first]
        follows = (first[1:] == first[:-1] + 1) & (number[1:] == number[:-1]) & (first[:-1] >= 0)
        unclaimed = (first[1:] < 0) & (first[:-1] < 0)
        follows |= unclaimed & (slots[rows[1:]] == slots[rows[:-1]] + 1)
        runs = np.split(rows, np.flatnonzero(~follows) + 1)
        of_hashes = [run[among(run, hashed)] for run in runs]
        return [run for run in of_hashes if run.size]

    def bounded_runs(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The same, where each is to be a finding: in a storm, what is behind the first is one."""
        runs = self.runs(rows)
        if len(runs) <= MAX_CAUSES:
            return runs
        return [*runs[:MAX_CAUSES], np.concatenate(runs[MAX_CAUSES:])]

    def claiming(
        self,
        explanation: Explanation,
        *,
        columns: Sequence[str] | None = None,
        reasons: FailReason = REAL,
    ) -> Explanation:
        """An explanation with the failed rows and the differences that stand on its roots.

        Args:
            explanation: the cause and its roots.
            columns: what it explains; None for all. A combined hash of others stays open.
            reasons: what it explains of the failed rows.
        """
        roots = explanation.roots
        halves = {
            half
            for half in KvHalf
            if columns is None or set(columns) & set(self.sources_of(half)) or reasons != REAL
        }
        failed = [
            view.on_rows(roots)
            for view in self.views
            if view.buffer.split(".")[0] in {half.lower() for half in halves}
        ]
        named = {
            name: rows
            for name, rows in self.open_columns.items()
            if columns is None or name in columns
        }
        return replace(
            explanation,
            failed=np.concatenate([np.empty(0, dtype=np.int64), *failed]),
            reasons=reasons,
            columns=differing_at(named, roots),
        )
