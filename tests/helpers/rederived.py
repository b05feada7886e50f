"""What a trace says of tables and records, followed in plain Python and sharing no code with replay.

Each step's parts are applied as the docstring of `core.recorded_step` has them; what the engine
would verify is verified on the way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kvaudit.core.plan import PlannedWrite
from kvaudit.core.recorded_step import RecordedBatch, RecordedStep
from kvaudit.core.sequences import Sequences
from kvaudit.core.snapshot import Snapshot
from kvaudit.formats.reader import read_file
from kvaudit.formats.trace_reader import open_trace
from tests.helpers.hand_oracle import ANCHOR, Record, link

_BLANK = Record(0, 0, 0, 0)


@dataclass(kw_only=True)
class Rederived:
    """The state after the steps applied so far.

    Fields:
        window: the pool's window; None for all positions.
        records: by slot; real_kv_hash is always 0.
        rows: slot by position, by row of the table.
        row_of: row of each request that has not ended.
        finished: slot by position of each request that has.
        events: how often each thing happened.
        num_verified: entries that were verified.
    """

    window: int | None = None
    records: dict[int, Record] = field(default_factory=dict)
    rows: dict[int, dict[int, int]] = field(default_factory=dict)
    row_of: dict[str, int] = field(default_factory=dict)
    finished: list[dict[int, int]] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    num_verified: int = 0

    @classmethod
    def after(cls, snapshot: Snapshot, sequences: Sequences) -> Rederived:
        """The records that a snapshot holds, and its finished sequences."""
        words = snapshot.canary["k.tail"].read().view(np.uint64)[:, :3].tolist()
        records = {
            slot: Record(*record, 0)
            for slot, record in zip(snapshot.slots.tolist(), words, strict=True)
        }
        finished = [
            kept_slots(sequences, idx)
            for idx, state in enumerate(sequences.states)
            if state != "running"
        ]
        return cls(window=snapshot.window, records=records, finished=finished)

    def apply(self, recorded: RecordedStep) -> None:
        """One row of the trace."""
        for row, first, slots in recorded.edits:
            self.events["edit"] += 1
            for position, slot in enumerate(slots.tolist(), start=first):
                self._set(row, position, slot)
        self._free(recorded)
        sources = [self.record(slot) for slot in recorded.copies.src.tolist()]
        for slot, record in zip(recorded.copies.dst.tolist(), sources, strict=True):
            self.events["copy"] += 1
            self._store(slot, record)
        if recorded.batch is not None:
            assert recorded.write is not None
            self.verify(recorded.batch)
            self._write(recorded.write)
            self._fill(recorded.batch, recorded.write)

    def verify(self, batch: RecordedBatch) -> None:
        """The entries that the plan kernel's rules give, and every finished sequence."""
        for row, prefix_len in zip(
            batch.request_index.tolist(), batch.prefix_lens.tolist(), strict=True
        ):
            first = max(0, prefix_len - self.window) if self.window else 0
            self._verify_chain(self.rows.get(row, {}), range(first, prefix_len))
        for slots in self.finished:
            self._verify_chain(slots, range(max(slots, default=-1) + 1))

    def record(self, slot: int) -> Record:
        """The record of a slot."""
        return self.records.get(slot, _BLANK)

    def assert_agrees(self, snapshot: Snapshot, sequences: Sequences) -> None:
        """Every record of the snapshot is this one, and so is the table of every running request."""
        for name in snapshot.canary:
            words = snapshot.canary[name].read().view(np.uint64)[:, :3].tolist()
            wanted = [list(self.record(slot)[:3]) for slot in snapshot.slots.tolist()]
            assert words == wanted, (snapshot.path, name)
        for idx, request_id in enumerate(sequences.request_ids):
            kept = kept_slots(sequences, idx)
            if sequences.states[idx] != "running":
                known = self.finished
            elif request_id in self.row_of:
                known = [self.rows[self.row_of[request_id]]]
            else:
                # It ran before the trace began, and no write has named its row yet.
                known = list(self.rows.values())
            assert any(kept.items() <= row.items() for row in known), (snapshot.path, request_id)

    def _verify_chain(self, slots: Mapping[int, int], positions: Iterable[int]) -> None:
        for position in positions:
            if position not in slots:
                continue
            self.num_verified += 1
            record = self.record(slots[position])
            assert record.position == position, (position, slots[position], record)
            if position == 0:
                assert record.prev_hash == ANCHOR
            elif position - 1 in slots:
                assert record.prev_hash == link(self.record(slots[position - 1])), position

    def _free(self, recorded: RecordedStep) -> None:
        freed = recorded.freed
        for row, length in zip(freed.request_index.tolist(), freed.lens.tolist(), strict=True):
            self.events["free"] += 1
            slots = self.rows.pop(row, {})
            kept = {position: slot for position, slot in slots.items() if position < length}
            self.finished.append(kept)
            self.row_of = {name: its for name, its in self.row_of.items() if its != row}

    def _write(self, write: PlannedWrite) -> None:
        for request_idx in range(len(write.plan)):
            seed = int(write.plan.write_seed_slot_indices[request_idx])
            running = ANCHOR if seed < 0 else link(self.record(seed))
            entries = write.entries_of(request_idx)
            for token, position, slot in zip(
                write.input_ids[entries].tolist(),
                write.positions[entries].tolist(),
                write.out_cache_loc[entries].tolist(),
                strict=True,
            ):
                if slot < 0:
                    self.events["skip"] += 1
                    continue
                self.events["write"] += 1
                record = Record(token, position, running, 0)
                self._store(slot, record)
                running = link(record)

    def _fill(self, batch: RecordedBatch, write: PlannedWrite) -> None:
        for idx, row in enumerate(batch.request_index.tolist()):
            assert write.request_ids is not None
            self.row_of[write.request_ids[idx]] = row
            entries = write.entries_of(idx)
            assert entries.stop - entries.start == batch.extend_seq_lens[idx]
            slots = write.out_cache_loc[entries].tolist()
            for position, slot in enumerate(slots, start=int(batch.prefix_lens[idx])):
                self._set(row, position, slot)

    def _set(self, row: int, position: int, slot: int) -> None:
        slots = self.rows.setdefault(row, {})
        if slot < 0:
            slots.pop(position, None)
        else:
            slots[position] = slot

    def _store(self, slot: int, record: Record) -> None:
        """A record replaces another; finished sequences end before the position that had it."""
        self.records[slot] = record
        for idx, slots in enumerate(self.finished):
            lost = [position for position, its in slots.items() if its == slot]
            if lost:
                self.finished[idx] = {p: its for p, its in slots.items() if p < min(lost)}


def kept_slots(sequences: Sequences, sequence_idx: int) -> dict[int, int]:
    """Slot by position of a sequence, below its kv_len."""
    first = int(sequences.start_positions[sequence_idx])
    table = enumerate(sequences.slots_of(sequence_idx).tolist(), start=first)
    return {p: slot for p, slot in table if p < sequences.kv_lens[sequence_idx]}


def assert_trace_agrees(folder: Path, pool: str = "full") -> tuple[Rederived, list[RecordedStep]]:
    """Every snapshot of a recorded run is what its trace gives; returns the end, and the steps."""
    snapshots = {
        int(path.parent.name.removeprefix("step-")): path
        for path in sorted(folder.glob(f"step-*/{pool}.snapshot.arrow"))
    }
    rederived = Rederived.after(*_pair(snapshots.pop(min(snapshots))))
    steps = list(open_trace(folder / f"{pool}.plan.arrow").steps())
    assert [recorded.step for recorded in steps] == sorted(recorded.step for recorded in steps)
    pending = deque(steps)
    for step, path in snapshots.items():
        while pending and pending[0].step <= step:
            rederived.apply(pending.popleft())
        rederived.assert_agrees(*_pair(path))
    assert not pending
    return rederived, steps


def _pair(path: Path) -> tuple[Snapshot, Sequences]:
    snapshot = read_file(path)
    sequences = read_file(path.with_name(path.name.replace(".snapshot.", ".sequences.")))
    assert isinstance(snapshot, Snapshot)
    assert isinstance(sequences, Sequences)
    return snapshot, sequences
