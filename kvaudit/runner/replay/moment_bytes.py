"""The bytes of a snapshot: against their stamps, and against the snapshot before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import NO_STEP, FailReason
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import column_order, stamped_name
from kvaudit.core.divergence import Divergence, DivergenceKind
from kvaudit.core.snapshot import DigestGrain, Snapshot
from kvaudit.core.violation import Violation
from kvaudit.runner.column_hashes import ColumnHasher, ColumnHashes
from kvaudit.runner.replay.replayed_pool import ReplayedPool

_NO_SLOTS: Final = np.empty(0, dtype=np.int64)
# Slots that one snapshot spells out; all are counted.
MAX_SPELT: Final = 100


@dataclass(slots=True, kw_only=True)
class BytesResult:
    """What the bytes of one snapshot show.

    Fields:
        slots: slots whose bytes are news, shape [n], int64, ascending, in the launches' numbering.
        divergences: the first of them, and of the stamps that changed.
        rows: a violation row for each of the first slots.
        num_restamped: stamps that changed without a write.
    """

    slots: NDArray[np.int64] = field(default_factory=lambda: _NO_SLOTS)
    divergences: list[Divergence] = field(default_factory=list)
    rows: list[Violation] = field(default_factory=list)
    num_restamped: int = 0


class BytesComparer:
    """Compares the bytes of snapshots, or their digests, in the order of their steps.

    A slot differs where its hash is not the one it was stamped with, or, without a stamp, where it
    is not that of the snapshot before and no step between the two wrote it.

    Args:
        pool: the replay's side.
        backend: what folds bytes.

    Fields:
        num_stamps: stamps compared, a column and slot each.
        num_unstamped: columns that have none.
        kv_bytes: KV bytes folded.
    """

    def __init__(self, pool: ReplayedPool, *, backend: Backend) -> None:
        self._pool = pool
        self._backend = backend
        self._previous: Snapshot | None = None
        self._previous_step = 0
        self.num_stamps = 0
        self.num_unstamped = 0
        self.kv_bytes = 0

    def compare(self, snapshot: Snapshot, *, step: int) -> BytesResult:
        """What differs at the end of a step.

        Raises:
            FileCorrupt: a chunk's digest differs.
            SnapshotInconsistent: a column's bytes and its digests contradict each other.
        """
        result = BytesResult()
        columns: dict[int, list[str]] = {}
        names = sorted({*snapshot.kv, *snapshot.digests}, key=column_order)
        every_row = np.arange(snapshot.num_rows, dtype=np.int64)
        for judged in _hasher(snapshot, self._backend, every_row).hash_all(names):
            self.kv_bytes += judged.kv_bytes
            rows = self._differing_rows(snapshot, judged)
            slots = snapshot.slots[rows] + self._pool.canary.shift
            slots = slots[self._pool.history.is_news(slots)]
            for slot in slots[:MAX_SPELT].tolist():
                columns.setdefault(slot, []).append(judged.name)
            result.slots = np.union1d(result.slots, slots)
            self._restamped(snapshot, judged.name, step=step, result=result)
        for slot in result.slots[:MAX_SPELT].tolist():
            names = columns.get(slot, [])
            divergence = self._pool.divergence(
                DivergenceKind.BYTES, slot, step=step, column=_columns_label(names)
            )
            result.divergences.append(divergence)
            result.rows.append(_row(snapshot, divergence, names))
        self._previous, self._previous_step = snapshot, step
        return result

    def _differing_rows(self, snapshot: Snapshot, judged: ColumnHashes) -> NDArray[np.int64]:
        """Rows whose hash is not what it should be, shape [n], int64."""
        name, previous = judged.name, self._previous
        if name in snapshot.stamped:
            stamped = _stamped_rows(snapshot)
            self.num_stamps += len(stamped)
            return np.intersect1d(judged.differing_rows, stamped)
        self.num_unstamped += 1
        before, now = self._unwritten_rows(snapshot)
        if previous is None or not (name in previous.kv or name in previous.digests):
            return now[:0]
        rows, places = np.unique(before, return_inverse=True)
        [was] = _hasher(previous, self._backend, rows).hash_all([name])
        self.kv_bytes += was.kv_bytes
        differing: NDArray[np.int64] = now[was.hashes[places] != judged.hashes[now]]
        return differing

    def _restamped(self, snapshot: Snapshot, name: str, *, step: int, result: BytesResult) -> None:
        """Stamps that are new since the snapshot before, though no step wrote their slot."""
        previous = self._previous
        if previous is None or not (name in previous.stamped and name in snapshot.stamped):
            return
        before, now = self._unwritten_rows(snapshot)
        was = previous.stamped[name].read().view(np.int64)[before]
        differs = was != snapshot.stamped[name].read().view(np.int64)[now]
        result.num_restamped += int(differs.sum())
        for row in now[differs][:MAX_SPELT].tolist():
            slot = int(snapshot.slots[row]) + self._pool.canary.shift
            result.divergences.append(
                self._pool.divergence(
                    DivergenceKind.STAMP, slot, step=step, column=stamped_name(name)
                )
            )

    def _unwritten_rows(self, snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the snapshot before, and of this one, of slots that no step between wrote."""
        previous = self._previous
        grains = {DigestGrain.SLOT, snapshot.digest_grain}
        if previous is None or grains | {previous.digest_grain} != {DigestGrain.SLOT}:
            # A page's hash changes with the slots of it that are live.
            return _NO_SLOTS, _NO_SLOTS
        before = previous.rows_of(snapshot.slots.copy())
        slots = snapshot.slots + self._pool.canary.shift
        is_same = self._pool.history.is_unwritten_since(slots, self._previous_step)
        now = np.flatnonzero((before >= 0) & is_same)
        return before[now], now


def _hasher(snapshot: Snapshot, backend: Backend, rows: NDArray[np.int64]) -> ColumnHasher:
    return ColumnHasher(
        snapshot=snapshot, backend=backend, rows=rows, stamped=snapshot.stamped.keys()
    )


def _stamped_rows(snapshot: Snapshot) -> NDArray[np.int64]:
    """Rows of slots that were ever stamped, as far as the snapshot says, shape [n], int64."""
    if "stamped_step" not in snapshot.evidence:
        return np.arange(snapshot.num_rows, dtype=np.int64)
    return np.flatnonzero(snapshot.evidence["stamped_step"].read() != NO_STEP)


def _columns_label(names: Sequence[str]) -> str:
    """`kv.k.0`, `kv.k.0 and 3 more columns`; a few words where none was spelt out."""
    if not names:
        return "a column"
    more = len(names) - 1
    return names[0] + (f" and {more} more column{'s' if more > 1 else ''}" if more else "")


def _row(snapshot: Snapshot, divergence: Divergence, columns: Sequence[str]) -> Violation:
    """The violation row of a slot whose bytes differ."""
    return Violation(
        tag=None,
        key=snapshot.key,
        entry=None,
        slot=divergence.slot if divergence.slot is not None else 0,
        expected_position=divergence.position,
        columns=tuple(columns),
        reasons=FailReason.COLUMN_DIGEST_MISMATCH,
        request_ids=tuple(divergence.request_ids),
        step=divergence.last_step,
    )
