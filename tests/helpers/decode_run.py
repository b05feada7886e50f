"""A recorded run of many requests that decode, written without an engine, its records by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from kvaudit.constants import LaunchTag
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.plan import PlannedWrite, WritePlan
from kvaudit.core.recorded_step import FreedRequests, RecordedBatch, RecordedStep
from kvaudit.core.snapshot import DumpMoment, PoolKey, Snapshot
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.formats.trace_writer import TraceWriter
from tests.helpers.hand_oracle import ANCHOR, Record, link

TAGS = (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL)


class DecodeRun:
    """Each step every request runs a token; one that is old ends, and another takes its row.

    Requests live for half of the context beyond it and begin with half of it less, so that a step
    finds about `context` positions of each. The records are followed in plain Python.

    Args:
        num_requests: requests of a step.
        context: mean positions of a request.
    """

    def __init__(self, *, num_requests: int, context: int) -> None:
        self.num_requests = num_requests
        self.prompt_len = context - context // 4
        self.max_len = context + context // 4
        self.records: dict[int, Record] = {}
        self._lens = [0] * num_requests
        self._names = [""] * num_requests
        self._num_begun = 0

    @property
    def num_slots(self) -> int:
        """A page-sized gap, then a stretch of slots for each request."""
        return 16 + self.num_requests * self.max_len

    def write(self, folder: Path, *, num_steps: int) -> Path:
        """The trace between two snapshots; returns its file."""
        path = folder / "full.plan.arrow"
        self._write_snapshot(folder, step=0)
        writer = TraceWriter(path, key=PoolKey())
        for recorded in self._steps(num_steps):
            writer.append(recorded)
        writer.close()
        self._write_snapshot(folder, step=num_steps)
        return path

    def _steps(self, num_steps: int) -> Iterator[RecordedStep]:
        for step in range(1, num_steps + 1):
            freed = [
                request
                for request, length in enumerate(self._lens)
                # The first ones are of all ages.
                if length >= self.max_len - (request if self._num_begun <= self.num_requests else 0)
            ]
            freed_lens = [self._lens[request] for request in freed]
            for request in freed:
                self._lens[request] = 0
            yield replace(
                self._step(step),
                freed=FreedRequests(
                    request_index=np.array(freed, dtype=np.int64) + 1,
                    lens=np.array(freed_lens, dtype=np.int64),
                ),
            )

    def _step(self, step: int) -> RecordedStep:
        starts = list(self._lens)
        for request, length in enumerate(starts):
            if not length:
                self._num_begun += 1
                self._names[request] = f"cmpl-{self._num_begun:032x}"
            self._lens[request] = length + 1 if length else self.prompt_len
        rows = [
            (16 + request * self.max_len + position, position)
            for request, start in enumerate(starts)
            for position in range(start, self._lens[request])
        ]
        slots, positions = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        tokens = (slots * 7 + step) % 50_000
        for slot, position, token in zip(
            slots.tolist(), positions.tolist(), tokens.tolist(), strict=True
        ):
            running = link(self.records[slot - 1]) if position else ANCHOR
            self.records[slot] = Record(token, position, running, 0)
        counts = np.array(self._lens) - starts
        firsts = 16 + np.arange(self.num_requests) * self.max_len + starts
        return RecordedStep(
            step=step,
            tags=TAGS,
            batch=RecordedBatch(
                request_index=np.arange(1, self.num_requests + 1),
                prefix_lens=np.array(starts, dtype=np.int64),
                extend_seq_lens=counts,
            ),
            write=PlannedWrite(
                plan=WritePlan(
                    write_offsets=np.concatenate([[0], np.cumsum(counts)]),
                    write_seed_slot_indices=np.where(np.array(starts) > 0, firsts - 1, -1),
                    num_valid_reqs=self.num_requests,
                ),
                input_ids=tokens,
                positions=positions,
                out_cache_loc=slots,
                enable_chain_position_assert=True,
                request_ids=list(self._names),
            ),
        )

    def _write_snapshot(self, folder: Path, *, step: int) -> None:
        slots = np.array(sorted(self.records), dtype=np.int64)
        words = np.array([self.records[slot] for slot in slots.tolist()], dtype=np.uint64)
        records = words.reshape(-1, 4).view(np.int64)
        snapshot = Snapshot(
            slots=slots,
            num_slots=self.num_slots,
            page_size=16,
            key=PoolKey(step=step),
            at=DumpMoment.STEP_END,
            canary={
                name: ArrayColumn(name=f"canary.{name}", values=records)
                for name in ("k.tail", "v.tail")
            },
        )
        path = folder / f"step-{step:06d}" / "full.snapshot.arrow"
        path.parent.mkdir(parents=True)
        write_snapshot(path, snapshot)
