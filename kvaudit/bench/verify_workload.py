"""`verify` of every entry of a stamped pool, with its bytes in the modes that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kvaudit.backends import memory
from kvaudit.bench.machine import Direction, HostMachine, Machine
from kvaudit.bench.options import Op, RealKv
from kvaudit.bench.pool import BenchPool
from kvaudit.bench.workload import (
    UNWRITTEN,
    HostArrays,
    PlacedArrays,
    Sample,
    fold_outputs,
    fresh_ring,
    planted,
    real_kv_hashes,
    ring_rows,
    sampled_runs,
    source_words,
)
from kvaudit.bench.write_workload import WriteWorkload
from kvaudit.constants import (
    NO_PREDECESSOR,
    PADDING_SLOT,
    RECORD_POSITION,
    RECORD_PREV_HASH,
    RECORD_REAL_KV_HASH,
    RECORD_TOKEN,
    WORD_BYTES,
    LaunchTag,
)

_TAG = int(LaunchTag.TAIL_K_FULL)
# Slot, predecessor, token and position of the plan, and the record; its predecessor's is in a cache.
_ENTRY_BYTES = 4 * 8 + 32
_REASON_BYTES = 4
# Of the reference: its record, its predecessor's hash and the comparisons.
_JUDGEMENT_STEPS = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """Entries as `verify` takes them.

    Fields:
        slots, prev_slots: shape [n], int64.
        tokens, positions: shape [n], uint64.
    """

    slots: NDArray[np.int64]
    tokens: NDArray[np.uint64]
    positions: NDArray[np.uint64]
    prev_slots: NDArray[np.int64]

    def part(self, entries: NDArray[np.int64]) -> _Plan:
        """Some of the entries."""
        return _Plan(
            slots=self.slots[entries],
            tokens=self.tokens[entries],
            positions=self.positions[entries],
            prev_slots=self.prev_slots[entries],
        )


class VerifyWorkload:
    """Entries of one plan against one pool.

    Args:
        pool: the pool.
        real_kv: the mode.
        read_bytes: bytes of a slot that it folds.
        records: stamped records, shape [num_slots, 4], uint64.
        plan: the entries.
        sampled: entries that the reference judges, shape [n], int64.
    """

    op = Op.VERIFY
    direction: Direction = "read"

    def __init__(
        self,
        pool: BenchPool,
        *,
        real_kv: RealKv,
        read_bytes: int,
        records: NDArray[np.uint64],
        plan: _Plan,
        sampled: NDArray[np.int64],
    ) -> None:
        self.real_kv = real_kv
        self._pool = pool
        self._layout = (pool.page_size, pool.slot_bytes, read_bytes)
        # The few bytes of PARTIAL are read beside the records, as the launch API has it.
        self._folded = (*self._layout[:-1], 0) if real_kv is RealKv.PARTIAL else self._layout
        self._records = records
        self._plan = plan
        self._sampled = sampled
        self.num_entries = len(plan.slots)
        self.bytes_per_entry = _ENTRY_BYTES + _REASON_BYTES + read_bytes

    @classmethod
    def of(cls, pool: BenchPool, *, real_kv: RealKv, read_bytes: int) -> Self:
        """All entries of a pool, stamped by the CPU's kernels and then damaged in a few places."""
        prev_slots = np.concatenate([[NO_PREDECESSOR], pool.slots[:-1]])
        prev_slots[pool.offsets[:-1]] = NO_PREDECESSOR
        plan = _Plan(
            slots=pool.slots.copy(),
            tokens=pool.tokens,
            positions=pool.positions,
            prev_slots=prev_slots,
        )
        sampled = sampled_runs(
            pool.num_entries,
            steps_per_entry=_JUDGEMENT_STEPS + read_bytes // WORD_BYTES,
            seed=pool.seed,
        )
        records = _stamped(pool, real_kv=real_kv, read_bytes=read_bytes)
        _damage(records, plan, planted(sampled))
        return cls(
            pool,
            real_kv=real_kv,
            read_bytes=read_bytes,
            records=records,
            plan=plan,
            sampled=sampled,
        )

    def inputs(self) -> dict[str, NDArray[Any]]:
        """What a launch reads, by name."""
        return {
            "source_bytes": self._pool.kv,
            "canary_records": self._records,
            "slots": self._plan.slots,
            "tokens": self._plan.tokens,
            "positions": self._plan.positions,
            "prev_slots": self._plan.prev_slots,
            "num_valid": memory.single(self.num_entries, np.int32),
            "enable": memory.single(1, np.int32),
        }

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Fresh reason bits, ring, counters and scratch."""
        return {
            "reason_bits": np.full(self.num_entries, UNWRITTEN, dtype=np.uint32),
            **fresh_ring(),
            **fold_outputs(self.num_entries, self._folded[-1]),
        }

    def launch(self, machine: Machine, arrays: PlacedArrays) -> None:
        """Enqueue the launch, after the fold where the mode has one that it does not do itself."""
        hashes = real_kv_hashes(machine, arrays, layout=self._folded)
        names = ("canary_records", "slots", "tokens", "positions", "prev_slots", "num_valid")
        inputs = (*(arrays[name] for name in names), arrays["enable"], hashes)
        outputs = (arrays["reason_bits"], *(arrays[name] for name in fresh_ring()))
        if self.real_kv is RealKv.PARTIAL:
            machine.kernels.launch_verify_source(
                *inputs, arrays["source_bytes"], *outputs, _TAG, True, *self._layout
            )
        else:
            machine.kernels.launch_verify(*inputs, *outputs, _TAG, True)

    def engine_launch(self, arrays: PlacedArrays) -> None:
        """Enqueue the engine-shaped launch, which folds in line."""
        from kvaudit.bench.kernels.engine_launch import launch_engine_verify

        page_size, num_bytes_per_token, read_bytes = self._layout
        names = ("canary_records", "slots", "tokens", "positions", "prev_slots")
        launch_engine_verify(
            *(arrays[name] for name in names),
            source_words(arrays),
            arrays["reason_bits"],
            arrays["violation_ring"],
            arrays["violation_write_index"],
            _TAG,
            page_size,
            num_bytes_per_token // WORD_BYTES,
            read_bytes // WORD_BYTES,
        )

    def observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """Every entry's reason bits, the rows and the counters."""
        return {
            **self.engine_observed(outputs),
            "slot_run_counter": outputs["slot_run_counter"],
            "kernel_run_counter": outputs["kernel_run_counter"],
        }

    def engine_observed(self, outputs: HostArrays) -> dict[str, NDArray[Any]]:
        """The same without the counters."""
        return {"reason_bits": outputs["reason_bits"], "rows": ring_rows(outputs)}

    def sample(self) -> Sample:
        """Some of the entries against the same records; all rows are theirs."""
        part = type(self)(
            self._pool,
            real_kv=self.real_kv,
            read_bytes=self._layout[-1],
            records=self._records,
            plan=self._plan.part(self._sampled),
            sampled=np.arange(len(self._sampled)),
        )
        return Sample(
            workload=part,
            expected=lambda outputs: {
                "reason_bits": outputs["reason_bits"][self._sampled],
                "rows": ring_rows(outputs),
            },
        )


def _stamped(pool: BenchPool, *, real_kv: RealKv, read_bytes: int) -> NDArray[np.uint64]:
    """The records that an engine would have stamped, shape [num_slots, 4], uint64."""
    machine = HostMachine("numba_cpu")
    stamping = WriteWorkload.undamaged(pool, real_kv=real_kv, read_bytes=read_bytes)
    outputs = stamping.outputs()
    stamping.launch(machine, {**stamping.inputs(), **outputs})
    records: NDArray[np.uint64] = outputs["canary_records"]
    return records


def _damage(records: NDArray[np.uint64], plan: _Plan, entries: NDArray[np.int64]) -> None:
    """A fault an entry, in turn: each field of a record, then each kind of slot."""
    num_slots = len(records)
    fields = (RECORD_TOKEN, RECORD_POSITION, RECORD_PREV_HASH, RECORD_REAL_KV_HASH)
    faults = [
        *((plan.slots, "record", field) for field in fields),
        (plan.slots, "entry", num_slots),
        (plan.slots, "entry", PADDING_SLOT),
        (plan.prev_slots, "entry", num_slots),
    ]
    for number, entry in enumerate(entries):
        column, place, value = faults[number % len(faults)]
        if place == "record":
            records[column[entry], value] ^= np.uint64(1)
        else:
            column[entry] = value
