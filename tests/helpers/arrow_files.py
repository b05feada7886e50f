"""Small files of every kind for the tests of `formats`, and Arrow files written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import SlotRanges
from kvaudit.core.plan import PlanDump, PlannedLaunch, PlannedWrite, VerifyPlan, WritePlan
from kvaudit.core.recorded_step import (
    FreedRequests,
    RecordedBatch,
    RecordedStep,
    SlotCopies,
    TableEdits,
)
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import DumpMoment, PoolKey, Snapshot
from kvaudit.formats import schema
from kvaudit.formats.trace_writer import TraceWriter

KEY = PoolKey(
    instance="decode-0",
    group="target",
    pool="main",
    pool_kind=PoolKind.SWA,
    tier="device",
    rank=3,
    step=120,
)


def int64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def kv_column(name: str, num_rows: int, row_bytes: int, *, seed: int = 0) -> ArrayKvColumn:
    """Random KV bytes, all of which count."""
    data = np.random.default_rng(seed).integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)
    return ArrayKvColumn(name=name, data=data, read_bytes=row_bytes, dtype="bfloat16")


def snapshot(num_rows: int = 9, row_bytes: int = 24, **changes: Any) -> Snapshot:
    """A dense snapshot with two KV columns and records."""
    records = np.arange(num_rows * 4, dtype=np.int64).reshape(num_rows, 4)
    plain = Snapshot(
        slots=np.arange(num_rows, dtype=np.int64),
        num_slots=num_rows,
        page_size=2,
        canary={"k.tail": ArrayColumn(name="canary.k.tail", values=records)},
        kv={
            name: kv_column(name, num_rows, row_bytes, seed=seed)
            for seed, name in enumerate(("kv.k.0", "kv.v.0"))
        },
    )
    return replace(plain, **changes)


def full_snapshot() -> Snapshot:
    """A sparse snapshot with every optional column and key away from its default."""
    slots = int64(0, 1, 2, 8, 9, 10, 30)
    num_rows = len(slots)

    def column(name: str, values: Any, dtype: Any = np.int64) -> ArrayColumn:
        return ArrayColumn(name=name, values=np.array(values, dtype=dtype))

    kv_names = ("kv.k.0", "kv.v.0", "kv.kv.17", "kv.side.scales")
    widths = (24, 48, 13, 2)
    return Snapshot(
        slots=slots,
        num_slots=64,
        page_size=4,
        reserved_slots=SlotRanges(((0, 3), (8, 8))),
        key=KEY,
        at=DumpMoment.MID_STEP,
        real_kv_hash_mode=RealKvHashMode.ALL,
        stamped_columns=("kv.k.0", "kv.v.0", "kv.k.5"),
        token_offset=1,
        position_offset=-2,
        window=128,
        canary={
            name: column(f"canary.{name}", np.arange(num_rows * 4).reshape(-1, 4) + offset)
            for offset, name in enumerate(("k.head", "k.tail", "v.head", "v.tail"))
        },
        kv={
            name: kv_column(name, num_rows, width, seed=width)
            for name, width in zip(kv_names, widths, strict=True)
        },
        stamped={
            name: column("", np.arange(num_rows) - 3) for name in ("kv.k.0", "kv.side.scales")
        },
        digests={name: column("", np.arange(num_rows) * -5) for name in ("kv.k.0", "kv.k.5")},
        evidence={
            "swa_slot": column("swa_slot", np.arange(num_rows)),
            "alloc.ref": column("alloc.ref", np.arange(num_rows), np.int32),
            "alloc.state": column(
                "alloc.state", ["free", "live", "cached", "null", None, "live", "live"], object
            ),
            "alloc.owner": column("alloc.owner", [None, "a", "é", "", "b", "b", None], object),
            "written_step": column("written_step", np.arange(num_rows) - 1),
            "stamped_step": column("stamped_step", np.arange(num_rows) - 1),
        },
        metadata={"engine": "toy", "tp_rank": "1", "note": "an odd one, with ü", "own.key": "kept"},
    )


def sequences(**changes: Any) -> Sequences:
    """Two sequences with every optional column."""
    plain = Sequences(
        request_ids=["a", "b"],
        token_offsets=int64(0, 2, 5),
        tokens=int64(11, 12, 21, -1, 23),
        slot_offsets=int64(0, 1, 3),
        slots=int64(4, 5, 6),
        kv_lens=int64(1, 2),
        start_positions=int64(0, 0),
        prompt_lens=int64(-1, 2),
        states=[None, SequenceState.RUNNING],
        extra_keys=["lora", None],
    )
    return replace(plain, **changes)


def verify_plan(**changes: Any) -> VerifyPlan:
    """Three entries, a chain from its head."""
    plain = VerifyPlan(
        verify_slot_indices=int64(4, 5, 6),
        verify_expected_tokens=int64(11, 12, -1),
        verify_expected_positions=int64(0, 1, 2),
        verify_prev_slot_indices=int64(-1, 4, 5),
        num_valid=3,
    )
    return replace(plain, **changes)


def plan(**changes: Any) -> PlanDump:
    """Two launches, the second of which says as little as it may."""
    plain = PlanDump(
        launches=[
            PlannedLaunch(
                step=7,
                tags=(LaunchTag.TAIL_K_FULL, LaunchTag.SWEEP_V_SWA),
                plan=verify_plan(),
                check_verify_expected_token=True,
                request_ids=["a", "a", "b"],
            ),
            PlannedLaunch(
                step=8,
                tags=None,
                plan=verify_plan(num_valid=-1, enable=False),
                check_verify_expected_token=False,
            ),
        ]
    )
    return replace(plain, **changes)


def planned_write(**changes: Any) -> PlannedWrite:
    """Two requests: one goes on from slot 6, one begins and skips its first token."""
    plain = PlannedWrite(
        plan=WritePlan(
            write_offsets=int64(0, 1, 3),
            write_seed_slot_indices=int64(6, -1),
            num_valid_reqs=2,
        ),
        input_ids=int64(13, 21, 22),
        positions=int64(3, 0, 1),
        out_cache_loc=int64(7, -1, 9),
        request_ids=["a", "b"],
    )
    return replace(plain, **changes)


def recorded_steps() -> list[RecordedStep]:
    """A run of four rows, among them one that says all it can and one that says nothing."""
    tags = (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL)
    batch = RecordedBatch(
        request_index=int64(1, 2), prefix_lens=int64(3, 0), extend_seq_lens=int64(1, 2)
    )
    whole = RecordedStep(
        step=4,
        tags=tags,
        edits=TableEdits(
            request_index=int64(1, 2),
            positions=int64(0, 5),
            lens=int64(3, 1),
            slots=int64(4, 5, 6, -1),
        ),
        freed=FreedRequests(request_index=int64(3), lens=int64(17)),
        copies=SlotCopies(src=int64(8, 9), dst=int64(10, 11)),
        batch=batch,
        write=planned_write(
            expected_input_tokens=int64(13, 21, 99),
            expected_input_positions=int64(3, 0, 1),
            enable_chain_position_assert=True,
        ),
        verify=replace(plan().launches[0], step=4, tags=tags),
    )
    return [
        whole,
        RecordedStep(step=4),
        RecordedStep(step=5, tags=tags, batch=batch, write=planned_write(request_ids=None)),
        RecordedStep(step=9, tags=(), freed=whole.freed),
    ]


def write_trace(path: Path, steps: Iterable[RecordedStep], **options: Any) -> str:
    """The steps as a trace."""
    writer = TraceWriter(path, **{"key": PoolKey(), **options})
    for recorded in steps:
        writer.append(recorded)
    writer.close()
    return str(path)


def canary_state(**changes: Any) -> CanaryState:
    """A full ring of two rows that lost a third, and counters of three tags."""
    plain = CanaryState(
        ring=np.array(
            [[2, 5, 1, 22, -1, -4, 6, 1], [10, 7, 3, 31, 32, 9, 4, 8 | 16]], dtype=np.int64
        ),
        violation_write_index=3,
        ring_capacity=2,
        kernel_run_counters={LaunchTag.TAIL_K_FULL: 300, LaunchTag.SWEEP_K_SWA: 4},
        slot_run_counters={LaunchTag.TAIL_K_FULL: 4800},
        active_tags=(LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL),
        sweep_passes={LaunchTag.SWEEP_K_SWA: 1},
    )
    return replace(plain, **changes)


def write_by_hand(
    path: Path,
    kind: str | None,
    columns: Mapping[str, pa.Array],
    *,
    metadata: Mapping[str, str] | None = None,
    field_metadata: Mapping[str, Mapping[str, str]] | None = None,
    options: pa.ipc.IpcWriteOptions | None = None,
) -> str:
    """An Arrow file without digests, as an engine's own code may write it."""
    keys = {"kvaudit.format": "1", **({} if kind is None else {"kvaudit.kind": kind})}
    if kind == "snapshot":
        keys["kvaudit.page_size"] = "2"
    if kind == "state":
        keys |= STATE_METADATA
    keys.update(metadata or {})
    arrow_schema = pa.schema(
        [
            pa.field(name, array.type, metadata=(field_metadata or {}).get(name))
            for name, array in columns.items()
        ],
        metadata=keys,
    )
    batch = pa.record_batch(list(columns.values()), schema=arrow_schema)
    with pa.ipc.new_file(str(path), arrow_schema, options=options) as writer:
        writer.write_batch(batch)
    return str(path)


def snapshot_columns(**columns: pa.Array) -> dict[str, pa.Array]:
    """Columns of a snapshot of three slots, by their names in the file."""
    return {"slot": pa.array([1, 2, 3]), **columns}


def sequences_columns(**columns: pa.Array) -> dict[str, pa.Array]:
    """The columns that a sequences file must have; an argument of None takes one out."""
    plain = {
        "request_id": pa.array(["a", "b"]),
        "tokens": pa.array([[11, 12], [21, 22, 23]], pa.list_(pa.int64())),
        "slots": pa.array([[4], [5, 6]], pa.list_(pa.int64())),
        **columns,
    }
    return {name: array for name, array in plain.items() if array is not None}


def trace_columns(**columns: pa.Array) -> dict[str, pa.Array]:
    """The columns of a trace of two steps, without a verify half; an argument of None takes one out."""
    lists = pa.list_(pa.int64())
    plain = {
        "step": pa.array([7, 8]),
        **{name: pa.nulls(2, schema.PLAN_REQUIRED[name]) for name in schema.VERIFY_COLUMNS},
        "write_offsets": pa.array([[0, 1], [0, 2]], lists),
        "write_seed_slot_indices": pa.array([[-1], [4]], lists),
        "write_num_valid_reqs": pa.array([1, 1], pa.int32()),
        "input_ids": pa.array([[11], [12, 13]], lists),
        "positions": pa.array([[0], [1, 2]], lists),
        "out_cache_loc": pa.array([[4], [5, 6]], lists),
        "enable_write_input_assert": pa.array([False, False]),
        "enable_chain_position_assert": pa.array([0, 1], pa.int32()),
        "request_index": pa.array([[1], [1]], lists),
        "prefix_lens": pa.array([[0], [1]], lists),
        "extend_seq_lens": pa.array([[1], [2]], lists),
        **columns,
    }
    return {name: array for name, array in plain.items() if array is not None}


def state_columns(**columns: pa.Array) -> dict[str, pa.Array]:
    """The columns of a state of one violation; an argument of None takes one out."""
    plain = {name: pa.array([number]) for number, name in enumerate(schema.RING_COLUMNS)} | columns
    return {name: array for name, array in plain.items() if array is not None}


STATE_METADATA = {"kvaudit.violation_write_index": "1", "kvaudit.ring_capacity": "8"}


def plan_columns(**columns: pa.Array) -> dict[str, pa.Array]:
    """The columns that a plan file must have; an argument of None takes one out."""
    plain = {
        "step": pa.array([7]),
        "verify_slot_indices": pa.array([[4, 5]], pa.list_(pa.int64())),
        "verify_expected_tokens": pa.array([[11, 12]], pa.list_(pa.int64())),
        "verify_expected_positions": pa.array([[0, 1]], pa.list_(pa.int64())),
        "verify_prev_slot_indices": pa.array([[-1, 4]], pa.list_(pa.int64())),
        "verify_num_valid": pa.array([2], pa.int32()),
        "enable": pa.array([1], pa.int32()),
        "check_verify_expected_token": pa.array([True]),
        **columns,
    }
    return {name: array for name, array in plain.items() if array is not None}
