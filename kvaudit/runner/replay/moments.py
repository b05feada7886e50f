"""A snapshot of the run, held against what the replay has at its step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import RECORD_POSITION, RECORD_PREV_HASH, RECORD_TOKEN
from kvaudit.core.column_names import canary_name
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.divergence import Divergence, DivergenceKind
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.core.violation import Violation
from kvaudit.runner.replay.moment_bytes import BytesComparer
from kvaudit.runner.replay.replayed_pool import ReplayedPool

# A trace has no KV, so no real_kv_hash.
_WORDS: Final = {RECORD_TOKEN: "token", RECORD_POSITION: "position", RECORD_PREV_HASH: "prev_hash"}
_NO_SLOTS: Final = np.empty(0, dtype=np.int64)
# Differences of a kind that one snapshot spells out; all are counted.
MAX_SPELT: Final = 100


@dataclass(slots=True, kw_only=True)
class MomentResult:
    """What one snapshot shows.

    Fields:
        divergences: the first differences.
        total: all of them.
        rows: violation rows of slots whose bytes differ, the first of them.
        rows_total: all of those.
    """

    divergences: list[Divergence] = field(default_factory=list)
    total: int = 0
    rows: list[Violation] = field(default_factory=list)
    rows_total: int = 0


class MomentComparer:
    """Compares snapshots in the order of their steps.

    Args:
        pool: the replay's side.
        bytes_comparer: what compares the bytes; None = they are left out.

    Fields:
        num_positions: (request, position) pairs compared.
        num_records: records compared, a buffer and slot each.
        compared: slots of all snapshots, shape [num_slots], bool.
        mid_step: the snapshots that were not compared, by path.
    """

    def __init__(self, pool: ReplayedPool, *, bytes_comparer: BytesComparer | None) -> None:
        self._pool = pool
        self._bytes = bytes_comparer
        self.num_positions = 0
        self.num_records = 0
        self.mid_step: list[str] = []
        self.compared = np.zeros(pool.canary.num_slots, dtype=np.bool_)

    def compare(self, moment: AuditedPool, *, step: int, is_start: bool = False) -> MomentResult:
        """What differs at the end of a step; nothing of a dump in mid-step is judged.

        Args:
            moment: the snapshot and its sequences.
            step: its step.
            is_start: whether the replay begins with it: its bytes alone are judged then.

        Raises:
            FileCorrupt: a chunk's digest differs.
            SnapshotInconsistent: a column's bytes and its digests contradict each other.
        """
        result = MomentResult()
        snapshot = moment.snapshot
        if snapshot.at is DumpMoment.MID_STEP:
            self.mid_step.append(snapshot.path)
            return result
        bad = [_NO_SLOTS]
        if not is_start:
            bad += [self._records(snapshot, name, step, result=result) for name in snapshot.canary]
            for sequences in moment.sequences:
                self._table(sequences, step, result=result)
        if self._bytes is not None:
            found = self._bytes.compare(snapshot, step=step)
            result.divergences += found.divergences
            result.total += len(found.slots) + found.num_restamped
            result.rows += found.rows
            result.rows_total += len(found.slots)
            bad.append(found.slots)
        slots = snapshot.slots + self._pool.canary.shift
        self.compared[slots] = True
        self._pool.history.see(slots, step=step, bad=np.concatenate(bad))
        return result

    def _records(
        self, snapshot: Snapshot, name: str, step: int, *, result: MomentResult
    ) -> NDArray[np.int64]:
        """Slots whose record is not the one that the steps wrote, shape [n], int64."""
        pool = self._pool
        known = pool.history.known.get(name)
        if known is None:
            return _NO_SLOTS
        slots = snapshot.slots + pool.canary.shift
        rows = np.flatnonzero(known[slots])
        self.num_records += len(rows)
        recorded = snapshot.canary[name].read()[rows]
        replayed = pool.canary.records(name, slots[rows])
        words = list(_WORDS)
        differs = recorded[:, words] != replayed[:, words]
        found = np.flatnonzero(differs.any(axis=1) & pool.history.is_news(slots[rows]))
        result.total += len(found)
        for row in found[:MAX_SPELT].tolist():
            word = words[int(np.argmax(differs[row]))]
            divergence = pool.divergence(
                DivergenceKind.RECORD,
                int(slots[rows[row]]),
                step=step,
                column=f"{canary_name(name)} {_WORDS[word]}",
                pair=(int(recorded[row, word]), int(replayed[row, word])),
            )
            result.divergences.append(divergence)
        return slots[rows[found]]

    def _table(self, sequences: Sequences, step: int, *, result: MomentResult) -> None:
        """The slots of running requests whose row a write has named."""
        tables, shift = self._pool.tables, self._pool.canary.shift
        for idx, request_id in enumerate(sequences.request_ids):
            row = tables.row_of.get(request_id)
            if row is None or sequences.states[idx] is not SequenceState.RUNNING:
                continue
            start = int(sequences.start_positions[idx])
            kept = max(0, int(sequences.kv_lens[idx]) - start)
            slots = tables.as_launched(sequences.slots_of(idx)[:kept], shift=shift)
            held = tables.held_slots(row, start, len(slots))
            self.num_positions += len(slots)
            found = np.flatnonzero(slots != held)
            result.total += len(found)
            for place in found[:MAX_SPELT].tolist():
                divergence = Divergence(
                    kind=DivergenceKind.TABLE,
                    first_step=tables.seen_step + 1,
                    last_step=step,
                    column="slots",
                    slot=int(slots[place]) - shift,
                    position=start + place,
                    request_ids=(request_id,),
                    recorded=int(slots[place]) - shift,
                    replayed=int(held[place]) - shift,
                )
                result.divergences.append(divergence)
        tables.seen_step = step
