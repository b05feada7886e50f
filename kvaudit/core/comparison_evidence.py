"""What the rules of comparison may look at: one leg, and what of its matched slots differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason
from kvaudit.core.claims import Claims
from kvaudit.core.comparison import LegKind
from kvaudit.core.pool_content import PoolContent
from kvaudit.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDifference:
    """Where the sequences of both dumps contradict each other.

    Fields:
        request_id: the request.
        what: what differs: `request`, `kv_len`, `slot` or `token`.
        position: the position that it concerns; None of a whole request.
        left: what the left dump says; of a whole request, whether it has it.
        right: what the right dump says.
    """

    request_id: str
    what: str
    position: int | None = None
    left: int
    right: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotPairs:
    """Matched slots, one element a slot of the right dump, in its order.

    Fields:
        left_rows: rows of the left snapshot, shape [n], int64; one may stand for several.
        right_rows: rows of the right snapshot, shape [n], int64, ascending.
    """

    left_rows: NDArray[np.int64]
    right_rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.right_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAtStep:
    """How a pool fares in an audit of its own at one step.

    Fields:
        step: the step of the dump.
        path: the dump.
        num_failed: failed rows.
        num_checked: entries and stamps that were checked, of all families.
        slots: slots with a failed row, ascending; the first of very many.
        request_ids: requests that read them.
    """

    step: int
    path: str
    num_failed: int
    num_checked: int
    slots: Sequence[int] = ()
    request_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LegEvidence:
    """One leg as the rules see it. Pairs are numbered as in `pairs`.

    Fields:
        name: the leg, such as `A->B (device -> host)`.
        kind: what lies between the two dumps.
        left: the dump that is taken for right.
        right: the other.
        pairs: the matched slots.
        differing: pairs whose KV differs, by column in layer order; shape [k] each, int64,
            ascending; very many are cut to the first.
        sources: rows of the left snapshot that hold what the right one holds in the first differing
            pairs of the first differing column, shape [k], int64; -1 where none does.
        zero: which of those pairs have zero content in the right dump, shape [k], bool.
        records: pairs whose records differ, shape [m], int64, ascending; very many are cut.
        reasons: what of each record differs, shape [m], uint32, bits of FailReason.
        tables: contradictions of the sequences; the first of very many.
        num_tables: all of them.
        num_differing: pairs with any difference, exact.
        num_carried_on: of these, those whose content the next leg's dump holds alike.
        carried_to: that dump's name; "" where there is no next leg.
        left_content: what the left slots hold.
        right_content: what the right slots hold.
        claims: what the right dump's expectations claim of its slots.
        states: audits of the pool at both steps; empty unless the leg is one of steps.
    """

    name: str
    kind: LegKind
    left: Snapshot
    right: Snapshot
    pairs: SlotPairs
    differing: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    sources: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    zero: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    records: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    reasons: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    tables: Sequence[TableDifference] = ()
    num_tables: int = 0
    num_differing: int = 0
    num_carried_on: int = 0
    carried_to: str = ""
    left_content: PoolContent
    right_content: PoolContent
    claims: Claims
    states: Sequence[PoolAtStep] = ()

    @property
    def snapshot(self) -> Snapshot:
        """The dump that findings are of: the right one."""
        return self.right

    def reasons_of(self, pair: int) -> FailReason:
        """What of a pair's record differs; no bit where nothing does."""
        at = int(np.searchsorted(self.records, pair))
        found = at < len(self.records) and int(self.records[at]) == pair
        return FailReason(int(self.reasons[at])) if found else FailReason(0)
