"""Dumps of one pool whose requests lie elsewhere in each, and the report of their comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvaudit.backends.availability import choose
from kvaudit.constants import RealKvHashMode
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.comparison import ComparedLeg, CompareOptions, LegKind
from kvaudit.core.comparison_choices import ComparedContent, MatchBy
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.observer import SilentObserver
from kvaudit.core.report import Report
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.runner.compare import compare
from kvaudit.runner.compare.side import Side
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, build

TOKENS = {"A": (11, 12, 13, 14), "B": (21, 22, 23, 24)}
DEVICE, HOST = PoolKey(tier="device"), PoolKey(tier="host")
# Where requests A and B lie: pages of another order, and slots of another order within one.
HERE = ((2, 3, 4, 5), (6, 7, 8, 9))
THERE = ((10, 11, 12, 13), (3, 2, 4, 5))
LEG = ComparedLeg(
    name="A->B (device -> host)",
    kind=LegKind.TRANSFER,
    left="a.arrow",
    right="b.arrow",
    matched={"content": 5, "request": 1},
    left_slots=8,
    right_slots=7,
    left_unmatched=2,
    right_unmatched=1,
    slots_differing=1,
    columns=("kv.k.0",),
    columns_left_out={"kv.v.0": "A alone has it"},
    unchecked=("something",),
)


def dumped(
    slots: Sequence[Sequence[int]] = HERE,
    *,
    key: PoolKey = DEVICE,
    extra_keys: Sequence[str | None] = (None, None),
    **shape: object,
) -> World:
    """Requests A and B, stamped in every column."""
    shape = {
        "mode": RealKvHashMode.ALL,
        "stamped_columns": F_STAMPS,
        "stamps": F_STAMPS,
        "canary": ("k.head", "k.tail", "v.tail"),
        **shape,
    }
    builder = build(key=key, **shape)
    for (name, tokens), where, extra_key in zip(TOKENS.items(), slots, extra_keys, strict=True):
        builder.request(name, tokens=tokens, slots=where, extra_key=extra_key)
    return builder.done()


def dataset_of(dump: World | Snapshot | Dataset, *, sequences: bool = True) -> Dataset:
    """A dump with its sequences, or a bare one."""
    if isinstance(dump, Dataset):
        return dump
    if isinstance(dump, Snapshot):
        return Dataset(pools=[AuditedPool(snapshot=dump)])
    if not sequences:
        return Dataset(pools=[AuditedPool(snapshot=dump.snapshot())])
    return dump.dataset()


def compared(
    *dumps: World | Snapshot | Dataset,
    match: MatchBy = MatchBy.AUTO,
    content: ComparedContent = ComparedContent.BOTH,
    tolerance: float | None = None,
    sequences: bool = True,
    **options: object,
) -> Report:
    """Compare dumps on the CPU."""
    backend, choice = choose("cpu", kv_bytes=0, num_entries=0)
    return compare(
        [dataset_of(dump, sequences=sequences) for dump in dumps],
        backend=backend,
        choice=choice,
        options=CompareOptions(
            match=match, content=content, tolerance=tolerance, audit=AuditOptions(**options)
        ),
        observer=SilentObserver(),
    )


def finding_of(*dumps: World | Snapshot | Dataset, **options: object) -> Finding:
    """The one finding of a comparison."""
    found = compared(*dumps, **options).findings
    assert len(found) == 1, [(each.rule, each.summary) for each in found]
    return found[0]


def side_of(dump: World | Snapshot | Dataset, letter: str = "A", *, sequences: bool = True) -> Side:
    """A dump as the comparison sees it."""
    backend, _ = choose("cpu", kv_bytes=0, num_entries=0)
    return Side(dataset_of(dump, sequences=sequences).pools[0], letter=letter, backend=backend)


def change_byte(world: World, slot: int, *, column: str = "kv.v.1", byte: int = 9) -> None:
    """Turn one bit of a slot's KV over, without its stamp."""
    world.kv[column][slot, byte] ^= np.uint8(4)


def clear(world: World, slots: Sequence[int]) -> None:
    """Nothing of the slots arrived: neither their records nor their KV."""
    for values in (*world.records.values(), *world.kv.values()):
        values[list(slots)] = 0
