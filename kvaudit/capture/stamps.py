"""What a recorder knows of a pool: the record and each column's hash of every slot it stamped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends.availability import choose
from kvaudit.capture.digests import column_digests
from kvaudit.capture.slot_view import GatheredColumn, SlotView
from kvaudit.constants import NO_STEP, RECORD_WORDS, LaunchTag
from kvaudit.core.backend import Backend
from kvaudit.core.column_names import canary_name, column_half, stamped_name, tail_of
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.launch_tag import KvHalf, LaunchPhase, PoolKind, launch_tag


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """What one request wrote in a step, in position order.

    Fields:
        seed_slot_idx: slot of the position before the first one; NO_SEED at a chain's head.
        positions: shape [n], int64.
        tokens: the tokens that were run, shape [n], int64.
        slots: where their KV went, shape [n], int64.
    """

    seed_slot_idx: int
    positions: NDArray[np.int64]
    tokens: NDArray[np.int64]
    slots: NDArray[np.int64]


class PoolStamps:
    """Records and column hashes by slot; a slot never stamped is all zero.

    Fields:
        records: by half, shape [num_slots, 4], int64.
        hashes: by column name, source hash when stamped, shape [num_slots], int64.
        written_step: step of the last write or copy, shape [num_slots], int64; NO_STEP.
        stamped_step: step whose stamp the slot carries, shape [num_slots], int64; NO_STEP.
    """

    def __init__(self, views: Sequence[SlotView], pool_kind: PoolKind) -> None:
        num_slots = views[0].num_slots
        self._views = views
        self._pool_kind = pool_kind
        halves = sorted({column_half(view.name) for view in views})
        self.records = {half: np.zeros((num_slots, RECORD_WORDS), np.int64) for half in halves}
        self.hashes = {view.name: np.zeros(num_slots, np.int64) for view in views}
        self.written_step = np.full(num_slots, NO_STEP, dtype=np.int64)
        self.stamped_step = np.full(num_slots, NO_STEP, dtype=np.int64)

    def columns_of(self, half: KvHalf) -> list[str]:
        """Names of the half's columns, in fold order."""
        return [view.name for view in self._views if column_half(view.name) is half]

    def stamp(self, chains: Sequence[Chain], step: int) -> None:
        """Stamp what the chains wrote: the bytes as they are now, the records in chain order."""
        slots = np.concatenate([chain.slots for chain in chains])
        written, entry_rows = np.unique(slots, return_inverse=True)
        backend, _ = choose("cpu", kv_bytes=0, num_entries=len(slots))
        columns = {view.name: GatheredColumn(view=view, slots=written) for view in self._views}
        for name, hashes in column_digests(columns).items():
            self.hashes[name][written] = hashes
        for half, records in self.records.items():
            source_hashes = [
                self.hashes[name][written].view(np.uint64) for name in self.columns_of(half)
            ]
            real_kv_hashes = backend.combine(source_hashes)[entry_rows]
            tag = launch_tag(LaunchPhase.TAIL, half, self._pool_kind)
            _write(backend, chains, records=records, real_kv_hashes=real_kv_hashes, tag=tag)
        self.written_step[written] = step
        self.stamped_step[written] = step

    def copy(self, src: NDArray[np.int64], dst: NDArray[np.int64], step: int) -> None:
        """The engine copied slots src to dst: their records and hashes go with them."""
        for values in (*self.records.values(), *self.hashes.values(), self.stamped_step):
            values[dst] = values[src]
        self.written_step[dst] = step

    def canary_columns(self, slots: NDArray[np.int64]) -> Iterator[tuple[str, ArrayColumn]]:
        """The record columns of a snapshot of the slots, by their key in `Snapshot.canary`."""
        for half, records in self.records.items():
            key = tail_of(half)
            yield key, ArrayColumn(name=canary_name(key), values=records[slots])

    def stamped_columns(self, slots: NDArray[np.int64]) -> Iterator[tuple[str, ArrayColumn]]:
        """The stamped hashes of a snapshot of the slots, by KV column."""
        for name, hashes in self.hashes.items():
            yield name, ArrayColumn(name=stamped_name(name), values=hashes[slots])

    def evidence_columns(self, slots: NDArray[np.int64]) -> Iterator[tuple[str, ArrayColumn]]:
        """When the slots were written and stamped."""
        yield "written_step", ArrayColumn(name="written_step", values=self.written_step[slots])
        yield "stamped_step", ArrayColumn(name="stamped_step", values=self.stamped_step[slots])


def _write(
    backend: Backend,
    chains: Sequence[Chain],
    *,
    records: NDArray[np.int64],
    real_kv_hashes: NDArray[np.uint64],
    tag: LaunchTag,
) -> None:
    backend.write_records(
        records=records,
        write_offsets=np.cumsum([0, *(len(chain.slots) for chain in chains)], dtype=np.int64),
        write_seed_slot_indices=np.array([chain.seed_slot_idx for chain in chains], np.int64),
        input_ids=np.concatenate([chain.tokens for chain in chains]),
        positions=np.concatenate([chain.positions for chain in chains]),
        out_cache_loc=np.concatenate([chain.slots for chain in chains]),
        real_kv_hashes=real_kv_hashes,
        tag=tag,
    )
