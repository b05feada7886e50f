"""Which slot of one dump is which of the other: by content, by request and position, or by number."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from kvaudit.core.comparison import LegKind
from kvaudit.core.comparison_choices import MatchBy
from kvaudit.core.comparison_evidence import SlotPairs
from kvaudit.diagnosis.rule import counted
from kvaudit.errors import SnapshotInconsistent
from kvaudit.runner.compare.join import join_contents, join_requests
from kvaudit.runner.compare.matching import Matching, PairParts, num_distinct
from kvaudit.runner.compare.side import Contents, Side
from kvaudit.runner.in_order import in_order


class Matcher:
    """Matches the slots of one leg.

    Args:
        left: the dump that is taken for right.
        right: the other.
        kind: what lies between them.
        match: how to match.
    """

    def __init__(self, left: Side, right: Side, *, kind: LegKind, match: MatchBy) -> None:
        self._left, self._right, self._kind, self._match = left, right, kind, match
        self._requests = join_requests(left, right)
        self._parts = PairParts()
        self._due = np.zeros(left.snapshot.num_rows, dtype=np.bool_)
        self._wanted = np.zeros(right.snapshot.num_rows, dtype=np.bool_)
        self._found = np.zeros(left.snapshot.num_rows, dtype=np.bool_)
        self._contents: tuple[Contents, Contents] | None = None
        self._named_by = ""
        self._unchecked: list[str] = []

    def run(self) -> Matching:
        """Match what can be.

        Raises:
            SnapshotInconsistent: slots were to be matched by number, and pages differ in size.
        """
        ways = {
            MatchBy.AUTO: self._by_what_there_is,
            MatchBy.CONTENT: self._by_content,
            MatchBy.REQUEST: self._by_request,
            MatchBy.SLOT: self._by_slot,
        }
        return self._gathered(ways[self._match]())

    def _by_what_there_is(self) -> str:
        """Match as well as these dumps allow; why they cannot be, "" where they can."""
        if self._kind is LegKind.RANKS:
            return self._by_request() and self._by_slot()
        lacks = self._by_content()
        if not lacks:
            self._rest_by_request()
            return ""
        if not self._by_request():
            return ""
        if self._kind is LegKind.STEPS:
            return f"{lacks}; another step may have given any slot away: --match slot if it has not"
        if self._left.snapshot.key.place() != self._right.snapshot.key.place():
            return (
                f"{lacks}; slots of another place have other numbers: --match slot if they do not"
            )
        return self._by_slot()

    def _by_content(self) -> str:
        left, right = self._left, self._right
        hashed = [partial(getattr, side, "stamped") for side in (left, right)]
        ours, theirs = in_order(hashed, max_at_once=len(hashed))
        if ours is None or theirs is None:
            ours, theirs = left.told, right.told
        elif left.buffers[0] == right.buffers[0]:
            self._named_by = left.buffers[0]
        if ours is None or theirs is None:
            return "no content has a name: neither records nor tokens of sequences are in both"
        if left.has_extra_keys or right.has_extra_keys:
            if left.sequences is None or right.sequences is None:
                self._unchecked.append(
                    "extra keys: one dump has no sequences, so contents of different keys are one"
                )
            else:
                ours, theirs = left.keyed(ours), right.keyed(theirs)
        self._contents = (ours, theirs)
        join = join_contents(ours, theirs)
        found = join.left_places >= 0
        self._parts.add(
            MatchBy.CONTENT,
            ours.rows[join.left_places[found]],
            theirs.rows[found],
            ambiguous=join.ambiguous[found],
        )
        self._found[ours.rows[join.left_found]] = True
        self._wanted[theirs.rows] = True
        if self._kind is LegKind.STEPS:
            self._due |= self._found
        elif not self._add_requested():
            self._due[ours.rows] = True
        return ""

    def _add_requested(self) -> bool:
        """Ask for the rows of the requests that both name; whether there are any."""
        join = self._requests
        if join is None or not len(join.positions):
            return False
        # Where a transfer left the end of a request behind, the right dump is shorter.
        behind = join.left_behind if self._kind is LegKind.TRANSFER else join.left_behind[:0]
        rows = self._left.held_rows[np.concatenate((join.left_elements, behind))]
        self._due[rows[rows >= 0]] = True
        self._due &= self._left.usable
        self._due |= self._found
        return True

    def _requested(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of each (request, position) pair that both dumps have rows of; each pair once."""
        join = self._requests
        if join is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        left_rows = self._left.held_rows[join.left_elements]
        right_rows = self._right.held_rows[join.right_elements]
        kept = np.flatnonzero((left_rows >= 0) & (right_rows >= 0))
        kept = kept[self._left.usable[left_rows[kept]] & self._right.usable[right_rows[kept]]]
        pairs = right_rows[kept] * max(self._left.snapshot.num_rows, 1) + left_rows[kept]
        right_rows, left_rows = np.divmod(np.unique(pairs), max(self._left.snapshot.num_rows, 1))
        return left_rows, right_rows

    def _rest_by_request(self) -> None:
        """Pairs of one request and position whose contents have different names, or none."""
        left_rows, right_rows = self._requested()
        if self._contents is None or not len(left_rows):
            return
        ours, theirs = (
            _by_row(contents, side.snapshot.num_rows)
            for contents, side in zip(self._contents, (self._left, self._right), strict=True)
        )
        rest = (ours[left_rows] != theirs[right_rows]) | (ours[left_rows] == 0)
        left_rows, right_rows = left_rows[rest], right_rows[rest]
        self._parts.add(MatchBy.REQUEST, left_rows, right_rows)
        self._found[left_rows] = True
        self._wanted[right_rows] = True

    def _by_request(self) -> str:
        left_rows, right_rows = self._requested()
        if self._requests is None:
            return "a dump has no sequences"
        if not len(self._requests.positions):
            return "no request is in both"
        self._parts.add(MatchBy.REQUEST, left_rows, right_rows)
        self._found[left_rows] = True
        self._wanted[right_rows] = True
        self._add_requested()
        return ""

    def _by_slot(self) -> str:
        left, right = self._left.snapshot, self._right.snapshot
        if left.page_size != right.page_size:
            raise SnapshotInconsistent(
                f"pages of {left.page_size} slots, and of {right.page_size} in {right.path}",
                path=left.path or None,
                hint="slots of other pages have other numbers: --match content, or --match request",
            )
        slots, left_rows, right_rows = np.intersect1d(
            left.slots, right.slots, assume_unique=True, return_indices=True
        )
        if not len(slots):
            return "no slot is in both"
        used = self._used(left_rows, right_rows)
        left_rows, right_rows = left_rows[used], right_rows[used]
        self._parts.add(MatchBy.SLOT, left_rows, right_rows)
        self._found[left_rows] = True
        self._due |= self._found
        if self._kind is not LegKind.STEPS:
            self._due |= self._used_alone() & ~np.isin(left.slots, slots)
        self._wanted[right_rows] = True
        absent = left.num_rows + right.num_rows - 2 * len(slots)
        if absent:
            self._unchecked.append(f"{counted(absent, 'slot')} of one dump alone")
        return ""

    def _used(
        self, left_rows: NDArray[np.int64], right_rows: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which slots of one number hold something: by sequences, else by records, else all; [n]."""
        left, right = self._left, self._right
        used = left.usable[left_rows] & right.usable[right_rows]
        if left.sequences is not None and right.sequences is not None:
            used &= left.claimed[left_rows] | right.claimed[right_rows]
        elif left.buffers and right.buffers:
            ours = left.records(left.buffers[0])[left_rows].any(axis=1)
            used &= ours | right.records(right.buffers[0])[right_rows].any(axis=1)
        return used

    def _used_alone(self) -> NDArray[np.bool_]:
        """Which rows of the left dump hold something, as it alone tells; shape [num_rows], bool."""
        left = self._left
        if left.sequences is not None:
            return left.usable & left.claimed
        if left.buffers:
            return left.usable & left.records(left.buffers[0]).any(axis=1)
        return left.usable

    def _gathered(self, lacks: str) -> Matching:
        parts = self._parts
        none, unsure = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
        left_rows = np.concatenate([none, *parts.left_rows])
        right_rows = np.concatenate([none, *parts.right_rows])
        ambiguous = np.concatenate([unsure, *parts.ambiguous])
        numbers = np.repeat(np.arange(len(parts.by)), [len(rows) for rows in parts.left_rows])
        if len(parts.by) > 1:
            last = np.zeros(self._right.snapshot.num_rows, dtype=np.int64)
            last[right_rows] = numbers
            kept = np.flatnonzero(numbers == last[right_rows])
            kept = kept[np.argsort(right_rows[kept], kind="stable")]
            left_rows, right_rows = left_rows[kept], right_rows[kept]
            ambiguous, numbers = ambiguous[kept], numbers[kept]
        counts = [num_distinct(right_rows[numbers == n]) for n in range(len(parts.by))]
        return Matching(
            pairs=SlotPairs(left_rows=left_rows, right_rows=right_rows),
            ambiguous=ambiguous,
            by={str(by): count for by, count in zip(parts.by, counts, strict=True)},
            due=self._due,
            found=self._found & self._due,
            wanted=self._wanted,
            requests=self._requests,
            contents=self._contents,
            named_by=self._named_by,
            by_content=numbers < sum(by is MatchBy.CONTENT for by in parts.by),
            unchecked=self._unchecked,
            lacks="" if len(left_rows) else lacks or "nothing that both hold is the same content",
        )


def _by_row(contents: Contents, num_rows: int) -> NDArray[np.uint64]:
    """The name of each row's content, shape [num_rows], uint64; 0 where it has none."""
    names = np.zeros(num_rows, dtype=np.uint64)
    names[contents.rows] = contents.ids
    return names
