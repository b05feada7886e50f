"""The hash of one column's rows, recomputed or as dumped, beside its stamp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import PARTIAL_READ_BYTES
from kvaudit.core.backend import Backend, FoldJob
from kvaudit.core.kv_column import KvColumn
from kvaudit.core.snapshot import DigestGrain, DumpMoment, Snapshot
from kvaudit.errors import SnapshotInconsistent

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnHashes:
    """What one column holds.

    Fields:
        name: the column.
        hashes: hash of each judged row, shape [n], uint64.
        differing_rows: judged rows that differ from the stamp, shape [k], int64, ascending; where
            digests are of pages, the first judged row of each.
        kv_bytes: KV bytes folded.
    """

    name: str
    hashes: NDArray[np.uint64]
    differing_rows: NDArray[np.int64]
    kv_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnHasher:
    """Hashes the columns of one pool; holds nothing of them.

    Fields:
        snapshot: the pool.
        backend: what folds.
        rows: rows to judge, shape [n], int64, ascending.
        stamped: the columns that are compared with their stamp.
    """

    snapshot: Snapshot
    backend: Backend
    rows: NDArray[np.int64]
    stamped: AbstractSet[str]

    def hash_all(
        self, names: Sequence[str], *, leading: Sequence[str] = ()
    ) -> Iterator[ColumnHashes]:
        """Hash columns in their order, the next ones while the consumer has the last.

        Args:
            names: columns whose digests are compared with their stamps, where there are any.
            leading: columns, before these, of which only the leading bytes of each judged row are
                hashed, which no stamp speaks of.

        Raises:
            FileCorrupt: a chunk's digest differs.
            SnapshotInconsistent: a column's bytes and its digests contradict each other.
        """
        kv = self.snapshot.kv
        jobs = [self._leading_job(kv[name]) for name in leading]
        jobs += [self._job(name) for name in names if name in kv]
        folds = self.backend.folds(jobs)
        for name in leading:
            yield ColumnHashes(
                name=name,
                hashes=next(folds),
                differing_rows=_NO_ROWS,
                kv_bytes=self.leading_bytes_of(name),
            )
        for name in names:
            yield self._judged(name, next(folds) if name in kv else None)

    def _leading_job(self, column: KvColumn) -> FoldJob:
        return FoldJob(column, self.rows, min(PARTIAL_READ_BYTES, column.row_bytes))

    def _job(self, name: str) -> FoldJob:
        column = self.snapshot.kv[name]
        if name not in self.snapshot.digests:
            return FoldJob(column, self.rows)
        return FoldJob(column, np.arange(column.num_rows, dtype=np.int64))

    def _judged(self, name: str, folded: NDArray[np.uint64] | None) -> ColumnHashes:
        """The digest of each judged row, compared with its stamp where there is one."""
        index = index_of(self.rows)
        if folded is None:
            hashes = self.snapshot.digests[name].read().view(np.uint64)[index]
        elif name in self.snapshot.digests:
            self._agree(name, folded)
            hashes = folded[index]
        else:
            hashes = folded
        differing = _NO_ROWS
        if name in self.stamped:
            stamps = self.snapshot.stamped[name].read().view(np.uint64)
            differing = self._first_of_pages(self.rows[hashes != stamps[index]])
        return ColumnHashes(
            name=name, hashes=hashes, differing_rows=differing, kv_bytes=self.bytes_of(name)
        )

    def bytes_of(self, name: str) -> int:
        """What judging a column folds."""
        column = self.snapshot.kv.get(name)
        if column is None:
            return 0
        every_row = name in self.snapshot.digests
        return column.read_bytes * (column.num_rows if every_row else len(self.rows))

    def leading_bytes_of(self, name: str) -> int:
        """What the combined hash of mode partial folds of a column."""
        return min(PARTIAL_READ_BYTES, self.snapshot.kv[name].row_bytes) * len(self.rows)

    def _first_of_pages(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """One row a page where digests are of pages: all rows of a page differ, or none does."""
        if self.snapshot.digest_grain is DigestGrain.SLOT:
            return rows
        pages = self.snapshot.slots[rows] // self.snapshot.page_size
        return rows[np.diff(pages, prepend=-1) > 0]

    def _agree(self, name: str, hashes: NDArray[np.uint64]) -> None:
        dumped = self.snapshot.digests[name]
        rows = np.flatnonzero(hashes != dumped.read().view(np.uint64))
        # In mid-step a forward may write between the copy of a row and its hash.
        if rows.size and self.snapshot.at is not DumpMoment.MID_STEP:
            raise SnapshotInconsistent(
                f"the digest is not the hash of the bytes in column {name}",
                path=self.snapshot.path or None,
                column=dumped.name,
                row=int(rows[0]),
                hint="dump bytes or digests, both from the same moment, and read_bytes with them",
            )


def index_of(rows: NDArray[np.int64], shift: int = 0) -> slice | NDArray[np.int64]:
    """What picks ascending rows, plus a shift, out of an array: a slice where they are consecutive."""
    if len(rows) and int(rows[-1] - rows[0]) + 1 == len(rows):
        return slice(int(rows[0]) + shift, int(rows[-1]) + 1 + shift)
    return rows + shift
