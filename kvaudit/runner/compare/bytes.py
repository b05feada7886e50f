"""The KV of matched slots: every column is folded once a dump, whatever legs it takes part in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.backend import Backend, FoldJob
from kvaudit.core.column_names import column_order
from kvaudit.core.comparison import CompareOptions
from kvaudit.core.comparison_choices import ComparedContent
from kvaudit.core.observer import RunObserver
from kvaudit.core.snapshot import Snapshot
from kvaudit.core.value_index import ValueIndex
from kvaudit.errors import SnapshotInconsistent
from kvaudit.runner.column_hashes import index_of
from kvaudit.runner.compare.columns import reads_bytes
from kvaudit.runner.compare.leg_bytes import MAX_KEPT, LegBytes, LegPlaces, places_of
from kvaudit.runner.compare.side import Side
from kvaudit.runner.compare.tolerance import beyond

_NO_PAIRS: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BytesComparison:
    """The columns of all legs.

    Fields:
        sides: the dumps.
        legs: the legs between them; filled.
        backend: what folds.
        options: what the user asked for.
        observer: told of progress.
    """

    sides: Sequence[Side]
    legs: Sequence[LegBytes]
    backend: Backend
    options: CompareOptions
    observer: RunObserver

    def run(self) -> int:
        """Compare every column of every leg.

        Returns:
            KV bytes folded.

        Raises:
            FileCorrupt: a chunk's digest differs.
            SnapshotInconsistent: a column's bytes and its digests contradict each other.
        """
        names = sorted({n for leg in self.legs for n in leg.columns.compared}, key=column_order)
        rows = [self._rows_of(number) for number in range(len(self.sides))]
        jobs = [(name, number) for name in names for number in self._sides_of(name)]
        total = sum(self._bytes_of(name, number) * len(rows[number]) for name, number in jobs)
        self.observer.stage("bytes", total)
        places = [
            places_of(found, side.snapshot) for found, side in zip(rows, self.sides, strict=True)
        ]
        legs = [
            LegPlaces.of(leg, places[leg.left], places[leg.right])
            for leg in self.legs
            if leg.columns.compared
        ]
        hashed = self._hashed(jobs, dict(enumerate(rows)))
        for name in names:
            hashes = {}
            for number in self._sides_of(name):
                hashes[number] = next(hashed)
                self.observer.advance(self._bytes_of(name, number) * len(rows[number]))
            for found in legs:
                if name in found.leg.columns.compared:
                    self._compare(name, found, hashes=hashes)
        for leg in self.legs:
            self._settle(leg)
        for before, leg in pairwise(self.legs):
            self._restore(before, leg)
        return total

    def _rows_of(self, number: int) -> NDArray[np.int64]:
        """The rows of a dump that any leg compares, shape [n], int64, ascending."""
        wanted = np.zeros(self.sides[number].snapshot.num_rows, dtype=np.bool_)
        for leg in self.legs:
            if leg.columns.compared and number in (leg.left, leg.right):
                pairs = leg.matching.pairs
                rows = pairs.left_rows if number == leg.left else pairs.right_rows
                wanted[rows if leg.compared is None else rows[leg.compared]] = True
        return np.flatnonzero(wanted)

    def _sides_of(self, name: str) -> list[int]:
        return sorted(
            {
                number
                for leg in self.legs
                if name in leg.columns.compared
                for number in (leg.left, leg.right)
            }
        )

    def _bytes_of(self, name: str, number: int) -> int:
        """KV bytes that a slot of a column takes to fold."""
        snapshot = self.sides[number].snapshot
        reads = reads_bytes(snapshot, name, self.options.content)
        return snapshot.kv[name].read_bytes if reads else 0

    def _hashed(
        self, jobs: Sequence[tuple[str, int]], rows: Mapping[int, NDArray[np.int64]]
    ) -> Iterator[NDArray[np.uint64]]:
        """The source hash of a dump's rows of a column, recomputed or as dumped, job by job."""
        content = self.options.content
        folds = self.backend.folds(
            FoldJob(self.sides[number].snapshot.kv[name], rows[number])
            for name, number in jobs
            if reads_bytes(self.sides[number].snapshot, name, content)
        )
        for name, number in jobs:
            snapshot = self.sides[number].snapshot
            if not reads_bytes(snapshot, name, content):
                digests = snapshot.digests[name].read().view(np.uint64)
                yield digests[index_of(rows[number])]
                continue
            hashes = next(folds)
            if name in snapshot.digests and content is ComparedContent.BOTH:
                _agree(snapshot, name, hashes, rows=rows[number])
            yield hashes

    def _compare(
        self,
        name: str,
        places: LegPlaces,
        *,
        hashes: Mapping[int, NDArray[np.uint64]],
    ) -> None:
        leg, chosen = places.leg, places.leg.compared
        ours = hashes[leg.left][places.left]
        theirs = hashes[leg.right][places.right]
        found = np.flatnonzero(ours != theirs)
        if not found.size:
            return
        differing = found if chosen is None else chosen[found]
        kept = self._judged(name, leg, differing)
        if not kept.any():
            return
        if not leg.differing:
            first = theirs[found[kept]][:MAX_KEPT]
            everyone = ValueIndex(ours)
            at = everyone.first(first)
            left_rows = leg.matching.pairs.left_rows
            at_pair = at if chosen is None else chosen[at]
            leg.sources = np.where((at >= 0) & (first != 0), left_rows[at_pair], -1)
            leg.zero = first == 0
        leg.note(name, differing[kept])

    def _judged(self, name: str, leg: LegBytes, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of a column's pairs with different digests are different, shape [k], bool."""
        kept = np.ones(len(pairs), dtype=np.bool_)
        if leg.pages is not None:
            kept = ~leg.matching.ambiguous[pairs]
        elif self.options.tolerance is not None:
            left, right = (self.sides[number].snapshot for number in (leg.left, leg.right))
            content = self.options.content
            if not (reads_bytes(left, name, content) and reads_bytes(right, name, content)):
                leg.undecided += len(pairs)
                return ~kept
            return beyond(
                (left.kv[name], leg.matching.pairs.left_rows[pairs]),
                (right.kv[name], leg.matching.pairs.right_rows[pairs]),
                tolerance=self.options.tolerance,
            )
        leg.undecided += int(np.count_nonzero(~kept))
        return kept

    def _settle(self, leg: LegBytes) -> None:
        """A slot is right if it holds what any slot of its content holds on the left.

        The same content may have been computed twice, and not to the last bit alike.
        """
        pairs, contents = leg.matching.pairs, leg.matching.contents
        unsure = np.flatnonzero(leg.differs & leg.matching.ambiguous)
        if contents is None or not unsure.size or leg.pages is not None:
            leg.clear(_NO_PAIRS)
            return
        ours, theirs = contents
        right_rows = pairs.right_rows[unsure]
        names = theirs.ids[np.searchsorted(theirs.rows, right_rows)]
        candidates = np.flatnonzero(np.isin(ours.ids, names))
        columns = leg.columns.compared
        left_prints = self._prints(
            columns, leg.left, ours.rows[candidates], seeds=ours.ids[candidates]
        )
        right_prints = self._prints(columns, leg.right, right_rows, seeds=names)
        leg.clear(unsure[np.isin(right_prints, left_prints)])

    def _restore(self, before: LegBytes, leg: LegBytes) -> None:
        """A slot that differs from a wrong copy of it may be right: as the first dump has it."""
        pairs, earlier, columns = leg.matching.pairs, before.matching.pairs, leg.columns.compared
        if leg.pages is not None or not set(columns) <= set(before.columns.compared):
            return
        origins = np.full(self.sides[leg.left].snapshot.num_rows, -1, dtype=np.int64)
        origins[earlier.right_rows[before.differs]] = earlier.left_rows[before.differs]
        found = np.flatnonzero(leg.differs & (origins[pairs.left_rows] >= 0))
        if not found.size:
            return
        prints = []
        for number, rows in (
            (before.left, origins[pairs.left_rows[found]]),
            (leg.right, pairs.right_rows[found]),
        ):
            ascending, places = np.unique(rows, return_inverse=True)
            seeds = np.zeros(len(ascending), dtype=np.uint64)
            prints.append(self._prints(columns, number, ascending, seeds=seeds)[places])
        restored = found[prints[0] == prints[1]]
        leg.restored[restored] = True
        leg.clear(restored)

    def _prints(
        self,
        names: Sequence[str],
        number: int,
        rows: NDArray[np.int64],
        *,
        seeds: NDArray[np.uint64],
    ) -> NDArray[np.uint64]:
        """A hash of a seed and of some columns of a dump's ascending rows, shape [n], uint64."""
        running = seeds.copy()
        for hashes in self._hashed([(name, number) for name in names], {number: rows}):
            running = self.backend.combine([hashes], running=running)
        return running


def _agree(
    snapshot: Snapshot, name: str, hashes: NDArray[np.uint64], *, rows: NDArray[np.int64]
) -> None:
    """Refuse a dump whose digests are not those of its bytes.

    Raises:
        SnapshotInconsistent: naming file, column and row.
    """
    wrong = np.flatnonzero(hashes != snapshot.digests[name].read().view(np.uint64)[rows])
    if wrong.size:
        raise SnapshotInconsistent(
            f"the digest is not the hash of the bytes in column {name}",
            path=snapshot.path or None,
            column=snapshot.digests[name].name,
            row=int(rows[wrong[0]]),
            hint="dump bytes or digests, both from the same moment; --content bytes compares these",
        )
