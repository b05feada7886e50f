"""Failed entries as numbers, bounded to those a report shows, until they become rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    MASK64,
    PADDING_SLOT,
    PREDECESSOR_UNREACHABLE,
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
    FailReason,
    LaunchTag,
)
from kvaudit.core.backend import Backend
from kvaudit.core.claims import NO_ROW, UNREACHABLE_ROW
from kvaudit.core.entries import EntrySource
from kvaudit.core.failed_rows import FailedRows
from kvaudit.core.snapshot import PoolKey
from kvaudit.core.violation import Violation

# Slot in the engine's numbering; index and prev_index in the record array; position as stored,
# -1 where no record was read. Everything that sorts or fills a row of the report.
FAILED_ENTRY: Final = np.dtype(
    [
        ("source", np.int64),
        ("entry", np.int64),
        ("slot", np.int64),
        ("index", np.int64),
        ("prev_index", np.int64),
        ("position", np.int64),
        ("expected_token", np.int64),
        ("expected_position", np.int64),
        ("expected_real_kv_hash", np.uint64),
        ("reasons", np.uint32),
    ]
)


# The first of a storm are enough for the rules: about 100 MiB a tag.
MAX_DIAGNOSED: Final = 1 << 20


class FailedEntries:
    """The failed entries of one tag.

    An exact count, the first `limit` in report order, and as many as rules look at in entry order.
    """

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._limit = limit
        self._kept = np.empty(0, dtype=FAILED_ENTRY)
        self._diagnosed: list[NDArray[Any]] = []

    def add(self, failed: NDArray[Any]) -> None:
        """Take in failed entries, shape [n], FAILED_ENTRY."""
        self._diagnosed.append(failed[: max(0, MAX_DIAGNOSED - self.total)])
        self.total += len(failed)
        merged = np.concatenate((self._kept, failed))
        order = np.lexsort((merged["entry"], merged["position"], merged["slot"]))
        self._kept = merged[order[: self._limit]]

    @property
    def kept(self) -> NDArray[Any]:
        """At most `limit` entries, sorted by slot, stored position and entry."""
        return self._kept

    @property
    def diagnosed(self) -> NDArray[Any]:
        """At most MAX_DIAGNOSED entries, in entry order."""
        return np.concatenate([np.empty(0, dtype=FAILED_ENTRY), *self._diagnosed])


def failed_rows_of(
    failed: NDArray[Any],
    *,
    tag: LaunchTag,
    records: NDArray[np.int64],
    backend: Backend,
    row_shift: int,
) -> FailedRows:
    """Failed entries of one tag, shape [n], FAILED_ENTRY, as the rules see them.

    Args:
        failed: the entries.
        tag: the launch.
        records: the record array, shape [num_indices, 4], int64.
        backend: computes the expected chain hashes.
        row_shift: the index of row 0.
    """
    read = (failed["index"] > PADDING_SLOT) & (failed["index"] < len(records))
    stored = records[np.where(read, failed["index"], 0)].view(np.uint64)
    prev_rows = failed["prev_index"] - row_shift
    reachable = (failed["prev_index"] > PREDECESSOR_UNREACHABLE) & (
        failed["prev_index"] < len(records)
    )
    prev_rows[~reachable] = UNREACHABLE_ROW
    prev_rows[failed["prev_index"] < 0] = NO_ROW
    return FailedRows(
        tags=np.full(len(failed), tag, dtype=np.int64),
        sources=failed["source"].copy(),
        entries=failed["entry"].copy(),
        slots=failed["slot"].copy(),
        rows=np.where(read, failed["index"] - row_shift, NO_ROW),
        prev_rows=prev_rows,
        records=np.where(read[:, None], stored, np.uint64(0)),
        expected_tokens=failed["expected_token"].copy(),
        expected_positions=failed["expected_position"].copy(),
        expected_chain_hashes=_expected_chain_hashes(failed, records, backend),
        expected_real_kv_hashes=failed["expected_real_kv_hash"].copy(),
        reasons=failed["reasons"].copy(),
    )


def violations_of(
    failed: NDArray[Any],
    *,
    tag: LaunchTag,
    sources: tuple[EntrySource, ...],
    records: NDArray[np.int64],
    backend: Backend,
    key: PoolKey,
    real_kv_hash_judged: bool,
) -> list[Violation]:
    """Rows of the report for failed entries of one tag.

    Args:
        failed: shape [n], FAILED_ENTRY; `source` counts in sources.
        tag: the launch.
        sources: where the entries come from.
        records: the record array, shape [num_indices, 4], int64.
        backend: computes the expected chain hashes.
        key: the pool.
        real_kv_hash_judged: whether expected_real_kv_hash means anything.
    """
    expected_chains = _expected_chain_hashes(failed, records, backend)
    names = _request_ids(failed, sources)
    rows = []
    for idx, entry in enumerate(failed):
        reasons = FailReason(int(entry["reasons"]))
        step = sources[entry["source"]].step
        row = Violation(
            tag=tag,
            key=key,
            entry=int(entry["entry"]),
            slot=int(entry["slot"]),
            expected_position=int(entry["expected_position"]),
            expected_token=int(entry["expected_token"]),
            reasons=reasons,
            request_ids=names[idx],
            step=key.step if step is None else step,
        )
        if not reasons & FailReason.SLOT_OUT_OF_RANGE:
            row = _with_record(row, records[entry["index"]], expected_chains[idx])
            if real_kv_hash_judged:
                row = replace(row, expected_real_kv_hash=int(entry["expected_real_kv_hash"]))
        rows.append(row)
    return rows


def _with_record(
    row: Violation, record: NDArray[np.int64], expected_chain_hash: np.uint64
) -> Violation:
    """The row with what its record, shape [4], int64, holds."""
    return replace(
        row,
        position=int(record[RECORD_POSITION]),
        token=int(record[RECORD_TOKEN]),
        chain_hash=int(record[RECORD_PREV_HASH]) & MASK64,
        expected_chain_hash=int(expected_chain_hash),
        real_kv_hash=int(record[RECORD_REAL_KV_HASH]) & MASK64,
    )


def _expected_chain_hashes(
    failed: NDArray[Any], records: NDArray[np.int64], backend: Backend
) -> NDArray[np.uint64]:
    """slot_hash of each predecessor; the stored chain hash where none was judged."""
    indices = np.clip(failed["index"], 0, len(records) - 1)
    expected: NDArray[np.uint64] = records[indices, RECORD_PREV_HASH].view(np.uint64)
    prev = failed["prev_index"]
    judged = np.flatnonzero((prev != PREDECESSOR_UNREACHABLE) & (prev < len(records)))
    if judged.size:
        expected[judged] = backend.slot_hashes(records, np.ascontiguousarray(prev[judged]))
    return expected


def _request_ids(failed: NDArray[Any], sources: tuple[EntrySource, ...]) -> list[tuple[str, ...]]:
    names: list[tuple[str, ...]] = [()] * len(failed)
    for source_idx in np.unique(failed["source"]).tolist():
        members = np.flatnonzero(failed["source"] == source_idx)
        found = sources[source_idx].request_ids_of(failed["entry"][members])
        for member, name in zip(members.tolist(), found, strict=True):
            names[member] = () if name is None else (name,)
    return names
