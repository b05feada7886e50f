"""The failed entries of a pool as columns: what was stored, and what was expected instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import RECORD_WORDS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FailedRows:
    """Failed entries, tag by tag in tag order, then in entry order; one element an entry.

    Rows are rows of the snapshot. `claims.NO_ROW` stands for a slot without a row, and in prev_rows
    for a chain head; `claims.UNREACHABLE_ROW` for a predecessor that was not judged.

    Fields:
        tags: launch tag, shape [n], int64.
        sources: number of the entry source, shape [n], int64.
        entries: number of the entry in its source, shape [n], int64.
        slots: slot in the engine's numbering, shape [n], int64.
        rows: its row, shape [n], int64.
        prev_rows: the row of the predecessor that the expectation names, shape [n], int64.
        records: what is stored, shape [n, 4], uint64; zero where no record was read.
        expected_tokens: shape [n], int64; NO_EXPECTED_TOKEN = unchecked.
        expected_positions: stored position that was expected, shape [n], int64.
        expected_chain_hashes: slot hash of the predecessor, shape [n], uint64; the stored one where
            none was judged.
        expected_real_kv_hashes: shape [n], uint64; 0 where none was judged.
        reasons: FailReason bits, shape [n], uint32.
    """

    tags: NDArray[np.int64]
    sources: NDArray[np.int64]
    entries: NDArray[np.int64]
    slots: NDArray[np.int64]
    rows: NDArray[np.int64]
    prev_rows: NDArray[np.int64]
    records: NDArray[np.uint64]
    expected_tokens: NDArray[np.int64]
    expected_positions: NDArray[np.int64]
    expected_chain_hashes: NDArray[np.uint64]
    expected_real_kv_hashes: NDArray[np.uint64]
    reasons: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.reasons)

    @classmethod
    def joined(cls, parts: Sequence[FailedRows]) -> FailedRows:
        """The rows of several launches, in the order given."""
        if not parts:
            return NONE_FAILED
        columns = {
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in fields(cls)
        }
        return cls(**columns)


def _none_failed() -> FailedRows:
    whole, hashes = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    return FailedRows(
        tags=whole,
        sources=whole,
        entries=whole,
        slots=whole,
        rows=whole,
        prev_rows=whole,
        records=np.empty((0, RECORD_WORDS), dtype=np.uint64),
        expected_tokens=whole,
        expected_positions=whole,
        expected_chain_hashes=hashes,
        expected_real_kv_hashes=hashes,
        reasons=np.empty(0, dtype=np.uint32),
    )


NONE_FAILED = _none_failed()
