"""Stamped pools that faults are put into, and what an audit then names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.sequences import SequenceState
from kvaudit.runner.inject_copy import Aim, PoolCopy
from tests.helpers.diagnosing import report_of
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import Builder, World, build

OF_THE_ALLOCATOR = ("KV105", "KV106", "KV107", "KV108")
PAGES = 6


def stamped_world(page_size: int, *, mode: RealKvHashMode = RealKvHashMode.ALL) -> World:
    """Requests A, B and C on six pages each, in scattered order; finite numbers of bfloat16."""
    length = PAGES * max(page_size, 4)
    slots = np.random.default_rng(5).permutation(np.arange(1, 1 + 3 * length // page_size))
    slots = (slots[:, None] * page_size + np.arange(page_size)).ravel()
    world = build(
        num_slots=3 * length + 2 * page_size,
        page_size=page_size,
        row_bytes=64,
        mode=mode,
        stamped_columns=("kv.k.0", "kv.v.0"),
        stamps=F_STAMPS,
        canary=("k.head", "k.tail", "v.tail"),
    ).done()
    for number, name in enumerate("ABC"):
        part = slots[number * length : (number + 1) * length].tolist()
        tokens = range(1000 * (number + 1), 1000 * (number + 1) + length)
        _add(world, name, tokens=list(tokens), slots=part)
    return world


def _add(world: World, name: str, *, tokens: list[int], slots: list[int]) -> None:
    Builder(world=world).request(name, tokens=tokens, slots=slots, state=SequenceState.RUNNING)
    for data in world.kv.values():
        data[:, 1::2] &= 0xBF
    for slot in slots:
        world.stamp_digests(slot)
        for column, records in world.records.items():
            half, buffer = column.split(".")
            records[slot, 3] = 0 if buffer == "head" else world.real_kv_hash(slot, half)


def allocate(world: World) -> World:
    """An allocator's columns that agree with the requests."""
    used = np.zeros(world.num_slots, dtype=bool)
    used[[slot for request in world.requests for slot in request.slots]] = True
    world.evidence = {
        "swa_slot": np.where(used, np.arange(world.num_slots), 0).astype(np.int64),
        "alloc.ref": used.astype(np.int32),
        "alloc.state": np.where(used, "live", "free").astype(object),
    }
    return world


def pool_for(rule: str, page_size: int, *, digests_only: bool = False) -> AuditedPool:
    """The pool that shows a rule's fault, if any can."""
    world = stamped_world(page_size)
    if rule in OF_THE_ALLOCATOR:
        allocate(world)
    snapshot = world.snapshot(digests_only=digests_only)
    kv = {name: replace(column, dtype="bfloat16") for name, column in snapshot.kv.items()}
    snapshot = replace(snapshot, kv=kv)
    if rule == "KV103":
        return AuditedPool(snapshot=snapshot, plans=(world.plan(),))
    return AuditedPool(snapshot=snapshot, sequences=(world.sequences(),))


def copy_of(pool: AuditedPool, *, seed: int = 0, **aim: object) -> PoolCopy:
    """A copy that a fault may damage."""
    return PoolCopy(pool, fault="a-fault", rng=np.random.default_rng(seed), aim=Aim(**aim))


def named(pool: AuditedPool) -> list[Finding]:
    """What an audit finds in a pool, but for its coverage."""
    report = report_of(Dataset(pools=[pool]))
    return [finding for finding in report.findings if not finding.rule.startswith("KV0")]
