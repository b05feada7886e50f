"""The failed rows of one launch beside all records that it read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
    FailReason,
    LaunchTag,
)
from kvaudit.core.claims import NO_ROW
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.failed_rows import FailedRows
from kvaudit.core.launch_tag import LaunchPhase, half_of, phase_of
from kvaudit.core.value_index import ValueIndex
from kvaudit.errors import InternalError


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordView:
    """What one launch judged, and what its records say of each other.

    Rows are rows of the snapshot; `failed` numbers count in `evidence.failed`.

    Fields:
        evidence: the pool.
        tag: the launch.
        failed: numbers of its failed rows, shape [n], int64, ascending.
        all_open_reasons: reasons not explained yet, of all launches, shape [all], uint32.
    """

    evidence: PoolEvidence
    tag: LaunchTag
    failed: NDArray[np.int64]
    all_open_reasons: NDArray[np.uint32]

    @property
    def rows(self) -> FailedRows:
        """The failed rows of all launches, which `failed` counts in."""
        return self.evidence.failed

    @cached_property
    def buffer(self) -> str:
        """The record column it read, such as `k.tail`."""
        buffer = "head" if phase_of(self.tag) is LaunchPhase.HEAD else "tail"
        return f"{half_of(self.tag).lower()}.{buffer}"

    @cached_property
    def records(self) -> NDArray[np.uint64]:
        """Every record of the column, shape [num_rows, 4], uint64."""
        return self.evidence.snapshot.canary[self.buffer].read().view(np.uint64)

    @property
    def tokens(self) -> NDArray[np.uint64]:
        """Stored token of each row, shape [num_rows], uint64."""
        return self.records[:, RECORD_TOKEN]

    @property
    def positions(self) -> NDArray[np.uint64]:
        """Stored position of each row, shape [num_rows], uint64."""
        return self.records[:, RECORD_POSITION]

    @property
    def prev_hashes(self) -> NDArray[np.uint64]:
        """Stored chain hash of each row, shape [num_rows], uint64."""
        return self.records[:, RECORD_PREV_HASH]

    @property
    def real_kv_hashes(self) -> NDArray[np.uint64]:
        """Stored combined hash of each row, shape [num_rows], uint64."""
        return self.records[:, RECORD_REAL_KV_HASH]

    @cached_property
    def slot_hashes(self) -> NDArray[np.uint64]:
        """What the successor of each row stores, shape [num_rows], uint64; 0 of a zero record."""
        if self.evidence.content is None:
            raise InternalError("rows failed in a pool without content")
        return self.evidence.content.slot_hashes(self.buffer)

    def with_open(self, reasons: FailReason) -> NDArray[np.int64]:
        """The failed rows that have any of the reasons, not explained yet; [k], int64, ascending."""
        found: NDArray[np.int64] = self.failed[
            (self.all_open_reasons[self.failed] & np.uint32(reasons)) != 0
        ]
        return found

    def with_only(self, reasons: FailReason) -> NDArray[np.int64]:
        """The failed rows that failed by nothing but the reasons, all open; [k], int64."""
        bits = self.rows.reasons[self.failed]
        alone = ((bits & ~np.uint32(reasons)) == 0) & (self.all_open_reasons[self.failed] == bits)
        found: NDArray[np.int64] = self.failed[alone]
        return found

    def on_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The failed rows that stand on any of the snapshot's rows, shape [n], int64."""
        return self.failed[self._failed_by_row.where(rows)]

    @cached_property
    def _failed_by_row(self) -> ValueIndex:
        return ValueIndex(self.rows.rows[self.failed])

    def runs(self, failed: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Failed rows, shape [n], int64, ascending, in runs that follow one another in a sequence."""
        if not failed.size:
            return []
        rows = self.rows
        follows = rows.prev_rows[failed[1:]] == rows.rows[failed[:-1]]
        follows &= rows.expected_positions[failed[1:]] == rows.expected_positions[failed[:-1]] + 1
        follows &= rows.sources[failed[1:]] == rows.sources[failed[:-1]]
        return np.split(failed, np.flatnonzero(~follows) + 1)

    @cached_property
    def replaced_rows(self) -> NDArray[np.int64]:
        """Rows that are not what their successor was chained to, int64, ascending.

        What such a row held when its successor was stamped is lost: it was written over later.
        """
        broken = self.rows.reasons[self.failed] & np.uint32(FailReason.VERIFY_CHAIN_HASH_MISMATCH)
        prev_rows = self.rows.prev_rows[self.failed[broken != 0]]
        return np.unique(prev_rows[prev_rows >= 0])

    @cached_property
    def _hashed_rows(self) -> NDArray[np.int64]:
        """Rows that a successor could name: not zero, not reserved; int64, ascending."""
        rows = np.flatnonzero(self.slot_hashes)
        return rows[self.evidence.names_slot(self.evidence.snapshot.slots[rows])]

    @cached_property
    def _by_slot_hash(self) -> ValueIndex:
        return ValueIndex(self.slot_hashes[self._hashed_rows])

    def rows_with_hash(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The first row with each slot hash, shape [n], int64; NO_ROW where there is none."""
        places = self._by_slot_hash.first(hashes)
        found = np.full(hashes.shape, NO_ROW, dtype=np.int64)
        found[places >= 0] = self._hashed_rows[places[places >= 0]]
        return found
