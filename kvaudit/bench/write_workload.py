"""`write` of every request of a pool: long chains, half of which go on from a stamped slot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.bench.machine import Direction, Machine
from kvaudit.bench.options import Op, RealKv
from kvaudit.bench.pool import VOCABULARY, BenchPool
from kvaudit.bench.workload import (
    HostArrays,
    PlacedArrays,
    Sample,
    fold_outputs,
    fresh_ring,
    real_kv_hashes,
    ring_rows,
    source_words,
)
from kvaudit.bench.write_batch import WriteBatch, sampled_requests
from kvaudit.constants import (
    MASK64,
    NO_SEED,
    RECORD_POSITION,
    RECORD_WORDS,
    WORD_BYTES,
    LaunchTag,
)

_TAG = int(LaunchTag.TAIL_K_FULL)
# Slot, token and position come in, the record goes out.
_ENTRY_BYTES = 3 * 8 + 32


class WriteWorkload:
    """Requests of one batch into one pool.

    Args:
        pool: the pool.
        real_kv: the mode.
        read_bytes: bytes of a slot that it folds.
        batch: the requests.
        sampled: requests of which the reference stamps the first entries, shape [n], int64.
        sampled_tokens: how many of each.
    """

    op = Op.WRITE
    direction: Direction = "read"

    def __init__(
        self,
        pool: BenchPool,
        *,
        real_kv: RealKv,
        read_bytes: int,
        batch: WriteBatch,
        sampled: NDArray[np.int64],
        sampled_tokens: int,
    ) -> None:
        self.real_kv = real_kv
        self._pool = pool
        self._layout = (pool.page_size, pool.slot_bytes, read_bytes)
        self._batch = batch
        self._sampled = sampled
        self._sampled_tokens = sampled_tokens
        self.num_entries = len(batch.slots)
        self.bytes_per_entry = _ENTRY_BYTES + read_bytes

    @classmethod
    def undamaged(cls, pool: BenchPool, *, real_kv: RealKv, read_bytes: int) -> WriteWorkload:
        """All requests of a pool, none of them from a seed and none of them wrong."""
        batch = WriteBatch(
            offsets=pool.offsets,
            seeds=np.full(pool.num_requests, NO_SEED),
            slots=pool.slots,
            tokens=pool.tokens,
            positions=pool.positions,
        )
        return cls(
            pool,
            real_kv=real_kv,
            read_bytes=read_bytes,
            batch=batch,
            sampled=np.arange(pool.num_requests),
            sampled_tokens=pool.num_entries,
        )

    @classmethod
    def of(cls, pool: BenchPool, *, real_kv: RealKv, read_bytes: int) -> WriteWorkload:
        """All requests of a pool; those of odd number go on from a slot of page 0."""
        numbers = np.arange(pool.num_requests)
        batch = WriteBatch(
            offsets=pool.offsets,
            seeds=np.where(numbers % 2 == 0, NO_SEED, numbers // 2 % pool.page_size),
            slots=pool.slots.copy(),
            tokens=pool.tokens,
            positions=pool.positions.copy(),
        )
        sampled, sampled_tokens = sampled_requests(pool, read_bytes)
        _, entries = batch.part(sampled, sampled_tokens)
        batch.damage(entries, num_slots=pool.num_slots)
        return cls(
            pool,
            real_kv=real_kv,
            read_bytes=read_bytes,
            batch=batch,
            sampled=sampled,
            sampled_tokens=sampled_tokens,
        )

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What a launch reads, by name."""
        return {
            "source_bytes": self._pool.kv,
            "offsets": self._batch.offsets,
            "seeds": self._batch.seeds,
            "num_valid": memory.single(len(self._batch.seeds), np.int32),
            "tokens": self._batch.tokens,
            "positions": self._batch.positions,
            "slots": self._batch.slots,
            "unasserted": memory.absent(np.uint64),
            "chain_assert": memory.single(1, np.int32),
        }

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Records of which only page 0, the seeds, are stamped; ring, counters and scratch."""
        records = np.zeros((self._pool.num_slots, RECORD_WORDS), dtype=np.uint64)
        seeds = records[: self._pool.page_size]
        seeds[...] = np.random.default_rng(self._pool.seed).integers(0, VOCABULARY, seeds.shape)
        # Position 0 follows -1: a request that goes on from a seed starts at 0 like any other.
        seeds[:, RECORD_POSITION] = MASK64
        return {
            "canary_records": records,
            **fresh_ring(),
            **fold_outputs(self.num_entries, self._layout[-1]),
        }

    def launch(self, machine: Machine, arrays: PlacedArrays) -> None:
        """Enqueue the fold, where the mode has one, and the launch."""
        hashes = real_kv_hashes(machine, arrays, layout=self._layout)
        names = ("offsets", "seeds", "num_valid", "tokens", "positions", "slots")
        machine.kernels.launch_write(
            *(arrays[name] for name in names),
            arrays["unasserted"],
            arrays["unasserted"],
            hashes,
            arrays["chain_assert"],
            arrays["canary_records"],
            *(arrays[name] for name in fresh_ring()),
            _TAG,
        )

    def engine_launch(self, arrays: PlacedArrays) -> None:
        """Enqueue the engine-shaped launch, which folds in line."""
        from kvaudit.bench.kernels.engine_launch import launch_engine_write

        page_size, num_bytes_per_token, read_bytes = self._layout
        names = ("offsets", "seeds", "tokens", "positions", "slots")
        launch_engine_write(
            *(arrays[name] for name in names),
            source_words(arrays),
            arrays["canary_records"],
            arrays["violation_ring"],
            arrays["violation_write_index"],
            _TAG,
            page_size,
            num_bytes_per_token // WORD_BYTES,
            read_bytes // WORD_BYTES,
        )

    def observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """Every record of the pool, the rows and the counters."""
        return {
            **self.engine_observed(outputs),
            "slot_run_counter": outputs["slot_run_counter"],
            "kernel_run_counter": outputs["kernel_run_counter"],
        }

    def engine_observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """The same without the counters."""
        return {"canary_records": outputs["canary_records"], "rows": ring_rows(outputs)}

    def sample(self) -> Sample:
        """The first entries of some requests; all rows are theirs."""
        batch, _ = self._batch.part(self._sampled, self._sampled_tokens)
        is_stored = (batch.slots >= 0) & (batch.slots < self._pool.num_slots)
        part = _WrittenPart(
            self._pool,
            real_kv=self.real_kv,
            read_bytes=self._layout[-1],
            batch=batch,
            sampled=np.arange(len(self._sampled)),
            sampled_tokens=self._sampled_tokens,
        )
        part.stored_slots = batch.slots[is_stored]
        return Sample(workload=part, expected=part.observed)


class _WrittenPart(WriteWorkload):
    """Some entries of a batch, of which only their own records count."""

    stored_slots: NDArray[np.int64]

    def observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """The records of its own slots, in entry order, and the rows."""
        return {"stored": outputs["canary_records"][self.stored_slots], "rows": ring_rows(outputs)}
