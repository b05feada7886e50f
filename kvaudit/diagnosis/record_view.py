"""The failed rows of one launch beside all records that it read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    NO_EXPECTED_TOKEN,
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
    FailReason,
    LaunchTag,
)
from kvaudit.core.claims import NO_ROW
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.fail_reason import RECORD_REASONS
from kvaudit.core.failed_rows import FailedRows
from kvaudit.core.launch_tag import LaunchPhase, half_of, phase_of
from kvaudit.core.value_index import ValueIndex
from kvaudit.diagnosis.content_homes import MAX_TOKEN, ContentHomes
from kvaudit.diagnosis.content_moves import MovedContent, moved_content
from kvaudit.errors import InternalError
from kvaudit.kernels.hash.arrays import mixed, unmixed

_CHAIN = FailReason.VERIFY_CHAIN_HASH_MISMATCH


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

    @property
    def replaced_rows(self) -> NDArray[np.int64]:
        """Rows whose successor is chained to something else, not explained yet; int64, ascending.

        Either the row was written over after its successor was stamped, or the successor is of
        another chain.
        """
        broken = self.with_open(_CHAIN)
        prev_rows = self.rows.prev_rows[broken]
        return np.unique(prev_rows[prev_rows >= 0])

    def holds_another_token(self, broken: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a chain check failed since the predecessor's token alone was replaced.

        With its position and its chain hash as they are, the mixer then gives a token for what
        the successor stores, which is nowhere any more. A token that was judged right was not.

        Args:
            broken: failed rows, shape [n], int64.

        Returns:
            shape [n], bool.
        """
        prev_rows = self.rows.prev_rows[broken]
        rows = np.maximum(prev_rows, 0)
        hashes = self.rows.records[broken, RECORD_PREV_HASH]
        tokens = unmixed(unmixed(hashes) ^ self.positions[rows]) ^ mixed(self.prev_hashes[rows])
        solved = (tokens < np.uint64(MAX_TOKEN)) & (prev_rows >= 0)
        claims = self.evidence.claims
        judged = claims.of_rows(rows)
        known = judged[claims.tokens[judged] != NO_EXPECTED_TOKEN]
        failed_tokens = self.rows.rows[self.with_open(FailReason.VERIFY_TOKEN_MISMATCH)]
        right = np.setdiff1d(claims.rows[known], failed_tokens)
        is_lost = self.rows_with_hash(hashes) == NO_ROW
        found: NDArray[np.bool_] = solved & is_lost & ~self.is_zero(rows) & ~np.isin(rows, right)
        return found

    @cached_property
    def homes(self) -> ContentHomes:
        """Where the records of the rows that are open at the first call belong."""
        broken = self.with_open(_CHAIN)
        blamed = self.rows.prev_rows[broken[self.holds_another_token(broken)]]
        failed = np.unique(self.rows.rows[self.with_open(RECORD_REASONS)])
        rows = np.union1d(failed, blamed)
        return ContentHomes(
            claims=self.evidence.claims,
            records=self.records,
            slot_hashes=self.slot_hashes,
            hashed_rows=self._hashed_rows,
            failed_rows=rows[rows >= 0],
            broken_rows=np.unique(self.rows.rows[self.with_only(_CHAIN)]),
            doubted_rows=np.setdiff1d(blamed, failed),
        )

    @cached_property
    def moved(self) -> list[MovedContent]:
        """The records that belong elsewhere, in groups of one cause."""
        return moved_content(self.homes, self.evidence.snapshot)

    def is_zero(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows, shape [n], int64, hold no record at all; shape [n], bool."""
        zero: NDArray[np.bool_] = (self.records[rows] == 0).all(axis=1)
        return zero

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
