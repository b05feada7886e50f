"""The trace of one pool: what each forward writes, and what changes between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.pool_dump import PoolDump
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.request_rows import RequestRows
from kvaudit.constants import SKIP_WRITE, VIOLATION_FIELDS
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.column_names import column_half
from kvaudit.core.launch_tag import LaunchPhase, launch_tag
from kvaudit.core.plan import PlannedWrite, WritePlan
from kvaudit.core.recorded_step import (
    NO_COPIES,
    FreedRequests,
    RecordedBatch,
    RecordedStep,
    SlotCopies,
    TableEdits,
)
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.formats.pairing_key import file_name
from kvaudit.formats.schema import FileKind
from kvaudit.formats.state_writer import write_state
from kvaudit.formats.trace_writer import TraceWriter

_NO_VIOLATIONS = np.empty((0, VIOLATION_FIELDS), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Changes:
    """What one row of the trace applies before its writes."""

    edits: TableEdits
    freed: FreedRequests
    copies: SlotCopies

    @property
    def is_empty(self) -> bool:
        parts = (self.edits.request_index, self.freed.request_index, self.copies.src)
        return not any(map(len, parts))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Forward:
    """What ran in a step."""

    batch: RecordedBatch
    write: PlannedWrite


class PoolTrace:
    """Writes the trace of one pool, a row a forward, as `core.recorded_step` describes it.

    Args:
        folder: where the trace and the state go; it exists.
        held: what the pool holds as the trace begins, at a step's end.
        step: the step that has ended.
        metadata: further schema metadata of both files.

    Raises:
        FileUnwritable: the system refused.
    """

    def __init__(
        self, folder: Path, held: PoolDump, *, step: int, metadata: Mapping[str, str]
    ) -> None:
        snapshot = held.snapshot
        self._folder = folder
        self._key = replace(snapshot.key, step=None)
        halves = {column_half(name) for name in snapshot.stamped_columns}
        kind = snapshot.key.pool_kind
        self._tags = tuple(sorted(launch_tag(LaunchPhase.TAIL, half, kind) for half in halves))
        self._metadata = metadata
        self._step = step
        self._num_forwards = 0
        self._num_stored = 0
        self._pending: list[PoolRow] = []
        self._copies = NO_COPIES
        self._earlier: list[_Changes] = []
        self._requests = RequestRows()
        self._take_over(held.sequences)
        path = folder / file_name(self._key, FileKind.PLAN)
        self._writer = TraceWriter(path, key=self._key, metadata=metadata)

    def before_forward(self, rows: Sequence[PoolRow]) -> None:
        """What the forward will write."""
        self._pending = [row for row in rows if len(row.slots)]

    def after_forward(self, step: int) -> None:
        """The forward has written: its row is complete.

        Raises:
            FileUnwritable: the system refused.
        """
        self._step = step
        self._write_rows(self._recorded_forward() if self._pending else None)
        self._pending = []

    def copy_slots(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> None:
        """Slots are copied, all of them read before one is written."""
        # These may read what the copies before them write, and a row's are made at once.
        self._end_copies()
        self._copies = SlotCopies(src=src.copy(), dst=dst.copy())

    def update(
        self, request_id: str, *, slots: NDArray[np.int64] | None, kv_len: int | None
    ) -> None:
        """The request's table or length as the engine has them now; None leaves them."""
        if not self._requests.has(request_id):
            return
        end = self._requests.kv_len_of(request_id) if kv_len is None else kv_len
        if slots is None:
            self._requests.cut(request_id, end)
        else:
            self._requests.set_table(request_id, slots, kv_len=end)

    def forget(self, request_id: str) -> None:
        """The engine is done with a request."""
        # What was copied into its slots before is its own, and a row's requests end before it.
        self._end_copies()
        self._requests.free(request_id)

    def close(self) -> list[Path]:
        """Write the trace and the state; returns their files.

        Raises:
            FileUnwritable: the system refused.
        """
        self._write_rows(None)
        self._writer.close()
        state_path = self._folder / file_name(self._key, FileKind.STATE)
        write_state(state_path, self._state(), metadata=self._metadata)
        return [self._writer.path, state_path]

    def abandon(self) -> None:
        """Let go of the trace; nothing is written."""
        self._writer.abandon()

    def _take_over(self, sequences: Sequences) -> None:
        """Requests that run already have rows from the start."""
        for sequence_idx, state in enumerate(sequences.states):
            if state is SequenceState.RUNNING:
                self._requests.set_table(
                    sequences.request_ids[sequence_idx],
                    sequences.slots_of(sequence_idx),
                    kv_len=int(sequences.kv_lens[sequence_idx]),
                )

    def _end_copies(self) -> None:
        """What follows the copies of before stands in a row of its own."""
        if len(self._copies.src):
            self._earlier.append(self._take_changes())

    def _take_changes(self) -> _Changes:
        edits, freed = self._requests.take_changes()
        copies, self._copies = self._copies, NO_COPIES
        return _Changes(edits=edits, freed=freed, copies=copies)

    def _write_rows(self, forward: _Forward | None) -> None:
        """A row for each set of changes; the last one is that of the forward."""
        for changes in self._earlier:
            self._writer.append(self._row(changes))
        self._earlier = []
        changes = self._take_changes()
        if forward is not None:
            row = self._row(changes)
            self._writer.append(
                replace(row, tags=self._tags, batch=forward.batch, write=forward.write)
            )
        elif not changes.is_empty:
            self._writer.append(self._row(changes))

    def _row(self, changes: _Changes) -> RecordedStep:
        """A row in which nothing runs."""
        return RecordedStep(
            step=self._step, edits=changes.edits, freed=changes.freed, copies=changes.copies
        )

    def _recorded_forward(self) -> _Forward:
        """What was written. What the tables hold besides becomes an edit."""
        rows = self._pending
        for row in rows:
            start = row.positions.start
            num_before = max(0, start - row.first_position)
            self._requests.set_table(row.request_id, row.slots[:num_before], kv_len=start)
        tables = [_written_slots(row) for row in rows]
        lengths = [len(row.positions) for row in rows]
        starts = [row.positions.start for row in rows]
        batch = RecordedBatch(
            request_index=_int64([self._requests.index_of(row.request_id) for row in rows]),
            prefix_lens=_int64(starts),
            extend_seq_lens=_int64(lengths),
        )
        out_cache_loc = np.concatenate(tables)
        write = PlannedWrite(
            plan=WritePlan(
                write_offsets=np.cumsum([0, *lengths], dtype=np.int64),
                write_seed_slot_indices=_int64([row.chain().seed_slot_idx for row in rows]),
                num_valid_reqs=len(rows),
            ),
            input_ids=np.concatenate([row.tokens for row in rows]),
            positions=np.concatenate(
                [np.arange(row.positions.start, row.positions.stop) for row in rows]
            ),
            out_cache_loc=out_cache_loc,
            request_ids=[row.request_id for row in rows],
        )
        for row, slots in zip(rows, tables, strict=True):
            self._requests.set_written(row.request_id, slots, first=row.positions.start)
        self._num_forwards += 1
        self._num_stored += int(np.count_nonzero(out_cache_loc >= 0))
        return _Forward(batch=batch, write=write)

    def _state(self) -> CanaryState:
        """What the recorder's own launches counted. It has no ring: it writes, and judges nothing."""
        return CanaryState(
            key=replace(self._key, step=self._step),
            ring=_NO_VIOLATIONS,
            violation_write_index=0,
            ring_capacity=0,
            kernel_run_counters=dict.fromkeys(self._tags, self._num_forwards),
            slot_run_counters=dict.fromkeys(self._tags, self._num_stored),
            active_tags=self._tags,
            sweep_passes={},
        )


def _written_slots(row: PoolRow) -> NDArray[np.int64]:
    """Slot of each position that the row runs, SKIP_WRITE where it is not stored; int64."""
    start = row.positions.start
    num_skipped = max(0, row.first_position - start)
    if not num_skipped:
        return row.slots[start - row.first_position :]
    return np.concatenate([np.full(num_skipped, SKIP_WRITE, dtype=np.int64), row.slots])


def _int64(numbers: Sequence[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)
