"""Stamped pools that faults are put into, and what an audit then names."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.finding import Finding
from kvaudit.core.sequences import SequenceState
from kvaudit.runner.inject.copy import Aim, PoolCopy
from tests.helpers.diagnosing import report_of
from tests.helpers.layer0_worlds import chatty_world
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import Builder, World, build

OF_LAYER_0 = ("KV210", "KV211")
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
    if rule in OF_LAYER_0 and not digests_only:
        return _of_words(page_size)
    world = stamped_world(page_size)
    if rule in OF_THE_ALLOCATOR:
        allocate(world)
    snapshot = world.snapshot(digests_only=digests_only)
    kv = {name: replace(column, dtype="bfloat16") for name, column in snapshot.kv.items()}
    snapshot = replace(snapshot, kv=kv)
    if rule == "KV103":
        return AuditedPool(snapshot=snapshot, plans=(world.plan(),))
    return AuditedPool(snapshot=snapshot, sequences=(world.sequences(),))


def _of_words(page_size: int) -> AuditedPool:
    """Requests of words that come again, whose layer 0 is what tokens and positions make of it."""
    world = chatty_world(num_requests=8, length=max(48, 4 * page_size), page_size=page_size)
    world.metadata["rope"] = world.model.rope.to_json()
    return world.pool()


def random_pool(rng: random.Random) -> AuditedPool:
    """Requests of any length on scattered pages; some begin with another's prompt, shared or not."""
    page_size = rng.choice([1, 2, 3, 16])
    pages = rng.sample(range(1, 80), 79)
    builder = build(
        num_slots=80 * page_size,
        page_size=page_size,
        row_bytes=rng.choice([16, 64]),
        mode=rng.choice(list(RealKvHashMode)),
        stamped_columns=rng.choice([("kv.k.0",), ("kv.k.0", "kv.v.0")]),
        stamps=rng.choice([F_STAMPS, ("kv.k.0",), ()]),
        canary=rng.choice([("k.tail",), ("k.head", "k.tail"), ("k.tail", "v.tail")]),
    )
    for number in range(rng.choice([1, 2, 3])):
        num_pages = rng.randint(4, 6) if page_size > 1 else rng.randint(6, 20)
        length = num_pages * page_size - rng.randint(0, page_size - 1)
        chosen = [pages.pop() for _ in range(num_pages)]
        slots = [page * page_size + offset for page in chosen for offset in range(page_size)]
        tokens = [rng.randint(1, 120_000) for _ in range(length + 1)]
        shared = 0
        if number and rng.random() < 0.4:
            first = builder.world.requests[0]
            common = rng.randint(1, min(len(first.slots), length) - 1)
            tokens[:common] = first.tokens[:common]
            shared = common if rng.random() < 0.6 else 0
            slots[:shared] = first.slots[:shared]
        builder.request(f"R{number}", tokens=tokens, slots=slots[:length], shared=shared)
    world = builder.done()
    return AuditedPool(
        snapshot=world.snapshot(digests_only=rng.random() < 0.3),
        sequences=(world.sequences(tokens=rng.random() < 0.7),),
    )


def copy_of(pool: AuditedPool, *, seed: int = 0, **aim: object) -> PoolCopy:
    """A copy that a fault may damage."""
    return PoolCopy(pool, fault="a-fault", rng=np.random.default_rng(seed), aim=Aim(**aim))


def named(pool: AuditedPool) -> list[Finding]:
    """What an audit finds in a pool, but for its coverage."""
    report = report_of(Dataset(pools=[pool]))
    return [finding for finding in report.findings if not finding.rule.startswith("KV0")]
