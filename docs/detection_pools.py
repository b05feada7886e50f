"""The pools of the detection matrix: small, stamped here, and clean; and what a dump keeps of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kvaudit.core.backend import Backend
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn, RowColumn
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import AllocState, PoolKey, Snapshot
from kvaudit.runner.expectations import expectations_of
from kvaudit.runner.stamp import computed, stamp

_NUM_REQUESTS: Final = 4
_ROW_BYTES: Final = 64
_SIDE: Final = "kv.side.scales"
# A fault of the tables alone contradicts these columns too, which would be a second finding.
OF_THE_ALLOCATOR: Final = ("KV105", "KV106", "KV107", "KV108")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a pool is laid out.

    Fields:
        name: what the page calls it.
        page_size: slots a page.
        halves: of the KV columns.
        token_offset: declared: a draft model's pool stamps the token so many positions on.
        window: positions that the pool keeps; None for all.
    """

    name: str
    page_size: int = 16
    halves: tuple[str, ...] = ("k", "v")
    token_offset: int = 0
    window: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of two layers."""
        return tuple(f"kv.{half}.{layer}" for layer in range(2) for half in self.halves)


LAYOUTS: Final = (
    Layout(name="pages of 1", page_size=1),
    Layout(name="pages of 16"),
    Layout(name="pages of 64", page_size=64),
    Layout(name="fused KV (MLA)", halves=("kv",)),
    Layout(name="window pool (SWA)", window=70),
    Layout(name="draft pool, offset declared", token_offset=1),
)


def base_pool(
    backend: Backend, layout: Layout, *, is_combined: bool, has_side: bool, has_tables: bool
) -> AuditedPool:
    """A clean pool with everything that a dump may have.

    Args:
        backend: what stamps it.
        layout: how it is laid out.
        is_combined: whether the records cover K of layer 0 too.
        has_side: whether there is a side buffer, which a fault of the layout would contradict.
        has_tables: whether there are an allocator's columns and a map to a window pool.
    """
    rng = np.random.default_rng(11)
    sequences, num_slots = _sequences(layout, rng)
    names = (*layout.columns, _SIDE) if has_side else layout.columns
    data = rng.integers(1, 256, (len(names), num_slots, _ROW_BYTES), dtype=np.uint8)
    # Without this bit no element of a float type is a NaN or an infinity.
    data &= np.uint8(0xBF)
    bare = Snapshot(
        slots=np.arange(num_slots, dtype=np.int64),
        num_slots=num_slots,
        page_size=layout.page_size,
        key=PoolKey(pool_kind=PoolKind.FULL if layout.window is None else PoolKind.SWA),
        token_offset=layout.token_offset,
        window=layout.window,
        kv={
            name: ArrayKvColumn(name=name, data=part, read_bytes=_ROW_BYTES, dtype="bfloat16")
            for name, part in zip(names, data, strict=True)
        },
    )
    combined = layout.columns[:1] if is_combined else ()
    pool = AuditedPool(snapshot=bare, sequences=(sequences,))
    snapshot = replace(
        computed(stamp(pool, backend=backend, combined=combined)),
        evidence=_tables(sequences, num_slots, layout) if has_tables else {},
    )
    return replace(pool, snapshot=snapshot)


def _sequences(layout: Layout, rng: np.random.Generator) -> tuple[Sequences, int]:
    """Requests on whole pages in random order; the first and the last page of the pool are free."""
    size = layout.page_size
    pages_each = {1: 24, 64: 4}.get(size, 6)
    num_pages = _NUM_REQUESTS * pages_each
    pages = rng.permutation(np.arange(1, 1 + num_pages))
    length = pages_each * size
    slots = (pages[:, None] * size + np.arange(size)).ravel().astype(np.int64)
    offsets = np.arange(0, (_NUM_REQUESTS + 1) * length, length, dtype=np.int64)
    # One more token than slots, as of every request that decodes.
    num_tokens = length + 1 + layout.token_offset
    token_offsets = np.arange(0, (_NUM_REQUESTS + 1) * num_tokens, num_tokens, dtype=np.int64)
    sequences = Sequences(
        request_ids=[f"request-{number}" for number in range(_NUM_REQUESTS)],
        token_offsets=token_offsets,
        tokens=rng.permutation(np.arange(1, 1 + _NUM_REQUESTS * num_tokens, dtype=np.int64)),
        slot_offsets=offsets,
        slots=slots,
        kv_lens=np.full(_NUM_REQUESTS, length, dtype=np.int64),
        start_positions=np.zeros(_NUM_REQUESTS, dtype=np.int64),
        prompt_lens=np.full(_NUM_REQUESTS, -1, dtype=np.int64),
        states=[SequenceState.RUNNING] * _NUM_REQUESTS,
        extra_keys=[None] * _NUM_REQUESTS,
    )
    return sequences, (num_pages + 2) * size


def _tables(sequences: Sequences, num_slots: int, layout: Layout) -> dict[str, RowColumn]:
    """One reference a slot in use, and in a full pool a window slot of its own."""
    in_use = np.zeros(num_slots, dtype=np.bool_)
    in_use[sequences.slots] = True
    values: dict[str, Any] = {
        "alloc.ref": in_use.astype(np.int32),
        "alloc.state": np.where(in_use, str(AllocState.LIVE), str(AllocState.FREE)).astype(object),
    }
    if layout.window is None:
        values["swa_slot"] = np.where(in_use, np.arange(num_slots), 0).astype(np.int64)
    return {name: ArrayColumn(name=name, values=column) for name, column in values.items()}


def plan_of(pool: AuditedPool) -> PlanDump:
    """What the sequences ask for, as one launch of an engine's plan."""
    entries = expectations_of(replace(pool, plans=()), ALL_ENTRIES).sources[0]
    blocks = list(entries.blocks())
    columns = [
        np.concatenate([getattr(block, name) for block in blocks])
        for name in (
            "slot_indices", "expected_tokens", "expected_positions", "prev_slot_indices",
        )
    ]  # fmt: skip
    plan = VerifyPlan(
        verify_slot_indices=columns[0],
        verify_expected_tokens=columns[1],
        verify_expected_positions=columns[2],
        verify_prev_slot_indices=columns[3],
        num_valid=len(columns[0]),
    )
    names = entries.request_ids_of(np.arange(len(columns[0]), dtype=np.int64))
    launch = PlannedLaunch(
        step=0, tags=None, plan=plan, check_verify_expected_token=True, request_ids=names
    )
    return PlanDump(launches=[launch])
