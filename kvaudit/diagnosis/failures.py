"""The failed rows of one pool, and which of their reasons no rule has explained yet."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.evidence import PoolEvidence
from kvaudit.core.value_index import ValueIndex
from kvaudit.diagnosis.byte_view import ByteView
from kvaudit.diagnosis.record_view import RecordView

_CHAIN = np.uint32(FailReason.VERIFY_CHAIN_HASH_MISMATCH)


class Failures:
    """What is open to be explained; the engine closes what a rule explains.

    Fields:
        evidence: the pool.
        open_reasons: reasons not explained yet, of each of `evidence.failed`, shape [n], uint32.
        open_columns: rows whose difference is not explained yet, by KV column; int64, ascending.
    """

    def __init__(self, evidence: PoolEvidence) -> None:
        self.evidence = evidence
        self.open_reasons = evidence.failed.reasons.copy()
        self.open_columns = dict(evidence.differing)

    @cached_property
    def views(self) -> tuple[RecordView, ...]:
        """The failed rows launch by launch, with the records that each launch read."""
        tags = self.evidence.failed.tags
        return tuple(
            RecordView(
                evidence=self.evidence,
                tag=LaunchTag(tag),
                failed=np.flatnonzero(tags == tag),
                all_open_reasons=self.open_reasons,
            )
            for tag in np.unique(tags).tolist()
        )

    @cached_property
    def byte_view(self) -> ByteView:
        """What the KV of the rows hashed to and hashes to, as far as it is open."""
        return ByteView(evidence=self.evidence, views=self.views, open_columns=self.open_columns)

    def close(self, failed: NDArray[np.int64], reasons: FailReason) -> NDArray[np.int64]:
        """Mark reasons of failed rows, shape [n], int64, as explained; gives those that had any."""
        had: NDArray[np.int64] = failed[(self.open_reasons[failed] & np.uint32(reasons)) != 0]
        self.open_reasons[had] &= ~np.uint32(reasons)
        return had

    def close_columns(self, column: str, rows: NDArray[np.int64]) -> None:
        """Mark a KV column's differences in some rows, shape [n], int64, as explained."""
        if column in self.open_columns:
            still = self.open_columns[column]
            self.open_columns[column] = still[~np.isin(still, rows)]

    def fold(self, roots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Close the chain checks of the successors of bad rows, shape [n], int64: they follow.

        Returns:
            numbers of the failed rows, shape [k], int64.
        """
        follows = self._broken_chains[self._by_prev_row.where(roots)]
        return self.close(follows, FailReason.VERIFY_CHAIN_HASH_MISMATCH)

    @cached_property
    def _broken_chains(self) -> NDArray[np.int64]:
        """Numbers of the failed rows that failed by their chain check, shape [k], int64."""
        return np.flatnonzero(self.evidence.failed.reasons & _CHAIN)

    @cached_property
    def _by_prev_row(self) -> ValueIndex:
        return ValueIndex(self.evidence.failed.prev_rows[self._broken_chains])
