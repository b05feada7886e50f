"""What the flight recorder of a live canary writes: a few rows of a pool and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.dump import sequences_path, write_pair
from kvaudit.capture.pool_row import PoolRow
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.capture.request_table import tokens_so_far
from kvaudit.capture.slot_view import GatheredColumn, SlotView
from kvaudit.capture.tables import SequenceRow, flat_sequences
from kvaudit.constants import (
    NUM_LAUNCH_TAGS,
    RECORD_WORDS,
    UNKNOWN_TOKEN,
    LaunchTag,
    RealKvHashMode,
)
from kvaudit.core.column_names import canary_name
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.launch_tag import PoolKind, pool_kind_of
from kvaudit.core.layout import SlotRanges
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import DumpMoment, PoolKey, Snapshot
from kvaudit.formats.pairing_key import file_stem

if TYPE_CHECKING:
    import torch

    from kvaudit.core.canary_state import CanaryState
    from kvaudit.runner.live import CachedPrefix, DumpRequest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinishedRow:
    """A request that is done: its last forward, and the steps done when it ended."""

    row: PoolRow
    step: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveDump:
    """What one dump of a pool holds.

    Fields:
        request: the reason, the rows of the ring, and the slots that surround them.
        pool: the engine's pool.
        views: its columns.
        real_kv_hash_mode: what the records' real_kv_hash covers.
        records: by column name, shape [num_slots, 32], uint8, on the pool's device.
        written_step: step of each slot's last write, shape [num_slots], int64; NO_STEP.
        sequences: the requests and cached prefixes concerned.
        state: the ring and the counters.
    """

    request: DumpRequest
    pool: RecordedPool
    views: Sequence[SlotView]
    real_kv_hash_mode: RealKvHashMode
    records: Mapping[str, torch.Tensor]
    written_step: NDArray[np.int64]
    sequences: Sequence[SequenceRow]
    state: CanaryState

    def write(
        self, directory: Path, *, key: PoolKey, metadata: Mapping[str, str], rope: Mapping[str, str]
    ) -> None:
        """Write snapshot, sequences and state into the folder of the step.

        Args:
            directory: where that folder goes.
            key: the pairing key of all three.
            metadata: further schema metadata of snapshot and state.
            rope: that of the snapshot alone, from `rope_metadata`.

        Raises:
            FileUnwritable: a file or its folder cannot be written.
        """
        from dataclasses import replace

        from kvaudit.formats.state_writer import write_state

        stem = directory / f"step-{self.request.step:06}" / file_stem(key)
        of_snapshot = {**metadata, **rope, "sequences": sequences_path(stem).name}
        write_pair(
            stem,
            snapshot=self._snapshot(key, of_snapshot),
            sequences=flat_sequences(self.sequences, key),
        )
        write_state(f"{stem}.state.arrow", replace(self.state, key=key), metadata=metadata)

    def _snapshot(self, key: PoolKey, metadata: Mapping[str, str]) -> Snapshot:
        slots = self._slots()
        hashes_bytes = self.real_kv_hash_mode is not RealKvHashMode.NONE
        return Snapshot(
            slots=slots,
            num_slots=self.views[0].num_slots,
            page_size=self.pool.page_size,
            reserved_slots=SlotRanges.parse(self.pool.reserved_slots),
            key=key,
            at=DumpMoment.STEP_END,
            real_kv_hash_mode=self.real_kv_hash_mode,
            stamped_columns=tuple(view.name for view in self.views) if hashes_bytes else (),
            window=self.pool.window,
            canary={
                name: ArrayColumn(name=canary_name(name), values=_rows_of(records, slots))
                for name, records in self.records.items()
            },
            kv={view.name: GatheredColumn(view=view, slots=slots) for view in self.views},
            evidence={
                "written_step": ArrayColumn(name="written_step", values=self.written_step[slots])
            },
            metadata=dict(metadata),
        )

    def _slots(self) -> NDArray[np.int64]:
        around = self.request.slots[self.pool.pool_kind]
        return np.unique(np.concatenate([around, *(row.live_slots for row in self.sequences)]))


def concerned_rows(
    request: DumpRequest,
    *,
    pool_kind: PoolKind,
    running: Sequence[PoolRow],
    finished: Iterable[FinishedRow],
    cached: Mapping[str, CachedPrefix],
    written_step: NDArray[np.int64],
) -> list[SequenceRow]:
    """The sequences that hold a slot of a violation, or without one all of the last forward.

    Args:
        request: what is to be dumped.
        pool_kind: the pool.
        running: the requests of the last forward.
        finished: requests that are done, of which what was not written since still counts.
        cached: prefixes that the engine keeps.
        written_step: step of each slot's last write, shape [num_slots], int64.
    """
    rows = [_running(row) for row in running]
    if not request.rows:
        return rows
    rows += [_kept(done, written_step) for done in finished]
    rows += [_cached(name, prefix) for name, prefix in cached.items()]
    bad = [
        row.slot
        for row in request.rows
        if 0 <= row.tag < NUM_LAUNCH_TAGS and pool_kind_of(LaunchTag(row.tag)) is pool_kind
    ]
    return [row for row in rows if np.isin(row.live_slots, bad).any()]


def _running(row: PoolRow) -> SequenceRow:
    return SequenceRow(
        request_id=row.request_id,
        tokens=tokens_so_far(row),
        slots=row.slots,
        kv_len=row.positions.stop,
        start_position=row.first_position,
        prompt_len=row.prompt_len,
        state=SequenceState.RUNNING,
    )


def _kept(done: FinishedRow, written_step: NDArray[np.int64]) -> SequenceRow:
    """A finished request up to the first slot that was written since."""
    from dataclasses import replace

    row = _running(done.row)
    lost = np.flatnonzero(written_step[row.slots] > done.step)
    kept = int(lost[0]) if lost.size else len(row.slots)
    return replace(
        row,
        slots=row.slots[:kept],
        kv_len=row.start_position + kept,
        state=SequenceState.FINISHED,
    )


def _cached(name: str, prefix: CachedPrefix) -> SequenceRow:
    slots = prefix.slots.cpu().numpy()
    before = np.full(prefix.start_position, UNKNOWN_TOKEN, dtype=np.int64)
    tokens = prefix.tokens.cpu().numpy() if prefix.tokens is not None else np.full_like(slots, -1)
    return SequenceRow(
        request_id=name,
        tokens=np.concatenate([before, tokens]),
        slots=slots,
        kv_len=prefix.start_position + len(slots),
        start_position=prefix.start_position,
        state=SequenceState.CACHED,
    )


def _rows_of(records: torch.Tensor, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """The records of slots, shape [n, 4], int64."""
    import torch

    words = records.view(torch.int64)
    chosen: NDArray[np.int64] = words[torch.from_numpy(slots).to(words.device)].cpu().numpy()
    return chosen[:, :RECORD_WORDS]
