"""The bytes family: every column's digest, recomputed or dumped, against its stamp.

Each column is folded once. Its hash is compared with its own stamp and goes into the combined hash
of its half, which the records pass judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PARTIAL_READ_BYTES, RealKvHashMode
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import column_half, column_layer, column_order, tail_of
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.observer import RunObserver
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import SnapshotInconsistent
from kvaudit.runner.row_space import RowSpace

_VALUES_PER_LOOK = 1 << 20


@dataclass(slots=True, kw_only=True, eq=False)
class BytesResult:
    """What the pass found; filled column by column.

    Fields:
        kv_bytes: KV bytes folded.
        judged: columns compared with their own stamp.
        unjudged: stamped columns whose bytes and digests the file lacks.
        unstamped: columns with bytes or digests, but neither a stamp nor a share in a combined hash.
        zero_stamps: `stamped.` columns that are zero throughout.
        absent: columns that a stamp or a combined hash needs and the file lacks.
        combined: halves whose combined hash was recomputed.
        differing_rows: rows where any column differs, shape [num_rows], bool.
        differences: first differing rows of each column that has any, shape [n], int64, ascending.
    """

    kv_bytes: int = 0
    judged: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    unstamped: list[str] = field(default_factory=list)
    zero_stamps: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    combined: list[KvHalf] = field(default_factory=list)
    differing_rows: NDArray[np.bool_]
    differences: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def num_differing(self) -> int:
        """Slots with at least one differing column."""
        return int(self.differing_rows.sum())

    def columns_of(self, rows: NDArray[np.int64]) -> list[tuple[str, ...]]:
        """The columns that differ at each of the first differing rows, ascending, in layer order."""
        columns: list[list[str]] = [[] for _ in range(len(rows))]
        for name in sorted(self.differences, key=column_order):
            for at in np.flatnonzero(np.isin(rows, self.differences[name])).tolist():
                columns[at].append(name)
        return [tuple(names) for names in columns]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BytesPass:
    """One pool's bytes family.

    Fields:
        snapshot: the pool.
        space: its row space.
        backend: what folds and combines.
        observer: told of progress.
        rows: rows to judge, shape [n], int64, ascending.
        layers: layers to judge; None = all.
        max_rows: differing rows to keep of each column.
    """

    snapshot: Snapshot
    space: RowSpace
    backend: Backend
    observer: RunObserver
    rows: NDArray[np.int64]
    layers: tuple[int, ...] | None
    max_rows: int

    def run(self) -> tuple[BytesResult, dict[KvHalf, NDArray[np.uint64]]]:
        """Fold what a stamp or a digest asks for, and compare.

        Returns:
            what was found, and the expected real_kv_hash of each half that has one, by index,
            shape [num_indices], uint64: 8 bytes a slot that the caller may drop.
        """
        snapshot = self.snapshot
        result = BytesResult(differing_rows=np.zeros(snapshot.num_rows, dtype=np.bool_))
        stamped = self._stamped(result)
        in_combined = self._combinable(result)
        sources = [name for names in in_combined.values() for name in names]
        own = self._compared(stamped)
        if self._is_partial:
            total = sum(map(self._leading_bytes, sources)) + sum(map(self._bytes_of, own))
        else:
            own = [name for name in own if name not in sources]
            total = sum(map(self._bytes_of, (*sources, *own)))
        self.observer.stage("bytes", total)
        combined = {
            half: self._combine(names, stamped, result) for half, names in in_combined.items()
        }
        for name in own:
            self._judge(name, stamped, result)
        present = {n for n in (*snapshot.kv, *snapshot.digests) if self._selected(n)}
        result.unstamped = sorted(present.difference(sources, stamped), key=column_order)
        result.combined = list(combined)
        return result, combined

    @property
    def _is_partial(self) -> bool:
        """Whether a combined hash covers leading bytes alone, so that they are folded apart."""
        return self.snapshot.real_kv_hash_mode is RealKvHashMode.PARTIAL

    def _selected(self, name: str) -> bool:
        return self.layers is None or column_layer(name) in self.layers

    def _has_content(self, name: str) -> bool:
        return name in self.snapshot.kv or name in self.snapshot.digests

    def _stamped(self, result: BytesResult) -> set[str]:
        """The columns that have a stamp to be compared with."""
        stamped = set()
        for name, column in self.snapshot.stamped.items():
            if not self._selected(name):
                continue
            if not _any_value(column.read()):
                result.zero_stamps.append(name)
            elif self._has_content(name):
                stamped.add(name)
                result.judged.append(name)
            else:
                result.unjudged.append(name)
                result.absent.append(name)
        return stamped

    def _combinable(self, result: BytesResult) -> dict[KvHalf, tuple[str, ...]]:
        """The columns of each half whose combined hash can be recomputed, in fold order."""
        snapshot = self.snapshot
        if snapshot.real_kv_hash_mode is RealKvHashMode.NONE:
            return {}
        combinable = {}
        for half in KvHalf:
            names = tuple(n for n in snapshot.stamped_columns if column_half(n) is half)
            if not names or tail_of(half) not in snapshot.canary:
                continue
            lacking = [name for name in names if not self._combines(name)]
            result.absent += [name for name in lacking if name not in result.absent]
            if not lacking and all(self._selected(name) for name in names):
                combinable[half] = names
        return combinable

    def _combines(self, name: str) -> bool:
        """Whether a column's part of a combined hash can be had."""
        if self.snapshot.real_kv_hash_mode is RealKvHashMode.ALL:
            return self._has_content(name)
        return name in self.snapshot.kv

    def _compared(self, stamped: set[str]) -> list[str]:
        """The columns with something to be compared with: a stamp, or digests beside the bytes."""
        double = [n for n in self.snapshot.kv if n in self.snapshot.digests and self._selected(n)]
        return sorted(stamped.union(double), key=column_order)

    def _bytes_of(self, name: str) -> int:
        """What judging a column folds."""
        column = self.snapshot.kv.get(name)
        if column is None:
            return 0
        every_row = name in self.snapshot.digests
        return column.read_bytes * (column.num_rows if every_row else len(self.rows))

    def _leading_bytes(self, name: str) -> int:
        """What the combined hash of mode partial folds of a column."""
        return min(PARTIAL_READ_BYTES, self.snapshot.kv[name].row_bytes) * len(self.rows)

    def _combine(
        self, names: tuple[str, ...], stamped: set[str], result: BytesResult
    ) -> NDArray[np.uint64]:
        """real_kv_hash of the judged rows from the columns' hashes, by index."""
        running = np.zeros(len(self.rows), dtype=np.uint64)
        for name in names:
            if self._is_partial:
                hashes = self._leading_hashes(name, result)
            else:
                hashes = self._judge(name, stamped, result)
            running ^= hashes
            running = self.backend.combine([running])
        by_index = np.zeros(self.space.num_indices, dtype=np.uint64)
        by_index[_index_of(self.rows, self.space.row_shift)] = running
        return by_index

    def _judge(self, name: str, stamped: set[str], result: BytesResult) -> NDArray[np.uint64]:
        """The column's hash of each judged row, shape [n], uint64, compared with its stamp."""
        hashes = self._hashes(name, result)
        if name in stamped and name not in result.differences:
            stamps = self.snapshot.stamped[name].read().view(np.uint64)[_index_of(self.rows)]
            differing = self.rows[hashes != stamps]
            if differing.size:
                result.differing_rows[differing] = True
                result.differences[name] = differing[: self.max_rows]
        return hashes

    def _hashes(self, name: str, result: BytesResult) -> NDArray[np.uint64]:
        """The digest of each judged row: recomputed where there are bytes, else as dumped."""
        column = self.snapshot.kv.get(name)
        if column is None:
            return self.snapshot.digests[name].read().view(np.uint64)[_index_of(self.rows)]
        self._count(self._bytes_of(name), result)
        if name not in self.snapshot.digests:
            return self.backend.fold(column, self.rows)
        every_row = np.arange(column.num_rows, dtype=np.int64)
        hashes = self.backend.fold(column, every_row)
        self._agree(name, hashes)
        return hashes[_index_of(self.rows)]

    def _leading_hashes(self, name: str, result: BytesResult) -> NDArray[np.uint64]:
        """The hash of the leading bytes of each judged row, shape [n], uint64."""
        self._count(self._leading_bytes(name), result)
        column = self.snapshot.kv[name]
        leading = min(PARTIAL_READ_BYTES, column.row_bytes)
        return self.backend.fold(column, self.rows, read_bytes=leading)

    def _count(self, num_bytes: int, result: BytesResult) -> None:
        result.kv_bytes += num_bytes
        self.observer.advance(num_bytes)

    def _agree(self, name: str, hashes: NDArray[np.uint64]) -> None:
        dumped = self.snapshot.digests[name]
        rows = np.flatnonzero(hashes != dumped.read().view(np.uint64))
        if rows.size:
            raise SnapshotInconsistent(
                f"the digest is not the hash of the bytes in column {name}",
                path=self.snapshot.path or None,
                column=dumped.name,
                row=int(rows[0]),
                hint="dump bytes or digests, both from the same moment, and read_bytes with them",
            )


def _index_of(rows: NDArray[np.int64], shift: int = 0) -> slice | NDArray[np.int64]:
    """What picks ascending rows, plus a shift, out of an array: a slice where they are consecutive."""
    if len(rows) and int(rows[-1] - rows[0]) + 1 == len(rows):
        return slice(int(rows[0]) + shift, int(rows[-1]) + 1 + shift)
    return rows + shift


def _any_value(values: NDArray[np.int64]) -> bool:
    """Whether any value is not zero, looking no further than needed."""
    return any(
        bool(values[first : first + _VALUES_PER_LOOK].any())
        for first in range(0, len(values), _VALUES_PER_LOOK)
    )
