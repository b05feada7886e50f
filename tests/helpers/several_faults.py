"""Pools of several groups of requests, each with a sequences file of its own, for a fault a group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from kvaudit.backends.availability import choose
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.kv_column import ArrayColumn, ArrayKvColumn
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.sequences import Sequences, SequenceState
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.diagnosis.byte_rows import folded, words_of
from kvaudit.runner.inject import inject
from kvaudit.runner.stamp import stamp
from tests.helpers.injecting import named

# Of the whole pool: beside another fault it is none.
WHOLE_POOL = ("KV207", "KV305")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a pool is like; `window` and `token_offset` are declared."""

    page_size: int
    num_groups: int = 3
    group_size: int = 2
    pages_each: int = 6
    num_layers: int = 2
    row_bytes: int = 64
    window: int | None = None
    token_offset: int = 0


def grouped_pool(shape: Shape) -> AuditedPool:
    """A clean pool with records, stamps, side buffers, an allocator's columns and a map."""
    rng, size = np.random.default_rng(3), shape.page_size
    num_requests = shape.num_groups * shape.group_size
    pages = rng.permutation(np.arange(1, 1 + num_requests * shape.pages_each))
    slots = (pages[:, None] * size + np.arange(size)).reshape(num_requests, -1)
    num_slots = (len(pages) + 2) * size
    files = [
        _sequences(shape, number, slots[number * shape.group_size :][: shape.group_size])
        for number in range(shape.num_groups)
    ]
    names = [f"kv.{half}.{layer}" for layer in range(shape.num_layers) for half in "kv"]
    names.append("kv.side.scales")
    snapshot = Snapshot(
        slots=np.arange(num_slots, dtype=np.int64),
        num_slots=num_slots,
        page_size=size,
        key=PoolKey(pool_kind=PoolKind.FULL if shape.window is None else PoolKind.SWA),
        window=shape.window,
        token_offset=shape.token_offset,
        kv={name: _column(name, (num_slots, shape.row_bytes), rng) for name in names},
        evidence=_allocator(slots, num_slots, has_map=shape.window is None),
    )
    pool = AuditedPool(snapshot=snapshot, sequences=files)
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    stamped = stamp(pool, backend=backend, combined=names[:1])
    canary = {
        name: ArrayColumn(name=column.name, values=column.read())
        for name, column in stamped.canary.items()
    }
    stamps = {
        name: ArrayColumn(name=column.name, values=column.read())
        for name, column in stamped.stamped.items()
    }
    return replace(pool, snapshot=replace(stamped, canary=canary, stamped=stamps))


def with_fault(pool: AuditedPool, rule: str, group: int, *, seed: int) -> AuditedPool:
    """A copy with a fault in one group of its requests, which knows nothing of the others."""
    files = list(pool.sequences)
    damaged = inject(replace(pool, sequences=files[group : group + 1]), rule, seed=seed).pool
    files[group] = damaged.sequences[0]
    return replace(damaged, sequences=files)


def as_digests(pool: AuditedPool) -> AuditedPool:
    """The same dump with digests in the place of bytes."""
    digests = {
        name: ArrayColumn(
            name=name,
            values=folded(words_of(column.read_rows(0, column.num_rows))).view(np.int64),
        )
        for name, column in pool.snapshot.kv.items()
    }
    return replace(pool, snapshot=replace(pool.snapshot, kv={}, digests=digests))


Said = tuple[str, tuple[int, ...], tuple[str, ...], int, str]


def said_of(pool: AuditedPool) -> list[Said]:
    """What an audit says of a pool, but for its coverage: rule, slots, requests, rows, words."""
    return joined(
        (
            finding.rule,
            tuple(finding.slots),
            tuple(sorted(finding.request_ids)),
            finding.evidence.get("rows", 0),
            finding.summary,
        )
        for finding in named(pool)
    )


def joined(parts: Iterable[Said]) -> list[Said]:
    """What several audits say, in one order; of a rule of the index a pool has one finding."""
    found: list[Said] = []
    of_index: dict[str, Said] = {}
    for part in parts:
        rule, slots, names, rows, _ = part
        if not rule.startswith("KV1"):
            found.append(part)
            continue
        _, more_slots, more_names, more_rows, _ = of_index.get(rule, (rule, (), (), 0, ""))
        all_slots = tuple(sorted({*slots, *more_slots}))
        all_names = tuple(sorted({*names, *more_names}))
        of_index[rule] = (rule, all_slots, all_names, rows + more_rows, "")
    return sorted((*found, *of_index.values()))


def _sequences(shape: Shape, group: int, slots: np.ndarray) -> Sequences:
    count, length = slots.shape
    num_tokens = length + 1 + shape.token_offset
    tokens = np.arange(count * num_tokens, dtype=np.int64) + 1 + group * count * num_tokens
    return Sequences(
        request_ids=[f"g{group}-{number}" for number in range(count)],
        token_offsets=np.arange(count + 1, dtype=np.int64) * num_tokens,
        tokens=np.random.default_rng(group).permutation(tokens),
        slot_offsets=np.arange(count + 1, dtype=np.int64) * length,
        slots=slots.ravel().astype(np.int64),
        kv_lens=np.full(count, length, dtype=np.int64),
        start_positions=np.zeros(count, dtype=np.int64),
        prompt_lens=np.full(count, -1, dtype=np.int64),
        states=[SequenceState.RUNNING] * count,
        extra_keys=[None] * count,
    )


def _column(name: str, shape: tuple[int, int], rng: np.random.Generator) -> ArrayKvColumn:
    # Without this bit no element of a float type is a NaN or an infinity.
    data = rng.integers(1, 256, shape, dtype=np.uint8) & np.uint8(0xBF)
    return ArrayKvColumn(name=name, data=data, read_bytes=shape[1], dtype="bfloat16")


def _allocator(slots: np.ndarray, num_slots: int, *, has_map: bool) -> dict[str, ArrayColumn]:
    used = np.zeros(num_slots, dtype=bool)
    used[slots.ravel()] = True
    values = {
        "alloc.ref": used.astype(np.int32),
        "alloc.state": np.where(used, "live", "free").astype(object),
    }
    if has_map:
        values["swa_slot"] = np.where(used, np.arange(num_slots), 0).astype(np.int64)
    return {name: ArrayColumn(name=name, values=column) for name, column in values.items()}
