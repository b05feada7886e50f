"""Random clean datasets, with all that CASES.md 7 lists as no error."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.layout import SlotRanges
from kvaudit.core.snapshot import PoolKey
from tests.helpers.clean_dumps import dumped
from tests.helpers.clean_requests import FINITE, CleanEngine
from tests.helpers.worlds import World

# What CASES.md 7 lists. Recomputed KV stands beside the first here; that it is compared within a
# tolerance is the business of `kvaudit diff`.
LISTED: Final = frozenset(
    (
        "last sampled token without KV",
        "prompt half prefilled",
        "blocks allocated ahead",
        "rejected drafts past kv_len",
        "slots never stamped",
        "columns of zeros",
        "slots without an expectation",
        "V half unstamped",
        "token offset declared",
        "position offset declared",
        "shared prefix",
        "table entry 0",
        "predecessor not reachable",
        "record 0 is anything",
        "old canaries on freed slots",
        "HEAD without real_kv_hash",
        "copy in flight",
        "dump in mid-step",
        "column of a combined hash absent",
        "bytes of another rank",
        "recomputed KV",
        "several groups",
    )
)
# And what else a dump may be.
FORMS: Final = frozenset(
    (
        "digests alone",
        "digests of pages",
        "sparse",
        "a plan",
        "no expectations",
        "a window pool",
        "fused KV",
        "side buffers",
        "a float type",
        "allocator columns",
        "prompts that begin alike",
        "layer 0 of tokens",
    )
)

_BUFFERS: Final = (
    (),
    ("k.tail",),
    ("k.head", "k.tail"),
    ("k.tail", "v.tail"),
    ("k.head", "k.tail", "v.head", "v.tail"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class CleanWorld:
    """A dataset without a fault, and what it has of LISTED and FORMS."""

    dataset: Dataset
    traits: frozenset[str]


def clean_world(seed: int) -> CleanWorld:
    """A dataset of one pool, or of two that differ by rank, instance, group or kind."""
    rng = random.Random(seed)  # noqa: S311 - a seed gives the same world
    traits: set[str] = set()
    makers: list[Callable[[random.Random, set[str]], list[AuditedPool]]] = [
        *[_one_pool] * 5, _two_ranks, _recomputed, _two_groups, _with_window_pool,
    ]  # fmt: skip
    pools = rng.choice(makers)(rng, traits)
    return CleanWorld(dataset=Dataset(pools=pools), traits=frozenset(traits))


def _one_pool(rng: random.Random, traits: set[str]) -> list[AuditedPool]:
    return [dumped(_engine(rng, traits), PoolKey())]


def _two_ranks(rng: random.Random, traits: set[str]) -> list[AuditedPool]:
    engine = _engine(rng, traits)
    first = dumped(engine, PoolKey(rank=0))
    engine.rewrite("of rank 1")
    traits.add("bytes of another rank")
    return [first, dumped(engine, PoolKey(rank=1))]


def _recomputed(rng: random.Random, traits: set[str]) -> list[AuditedPool]:
    engine = _engine(rng, traits)
    first = dumped(engine, PoolKey(instance="prefill-0"))
    engine.rewrite("computed once more")
    traits.add("recomputed KV")
    return [first, dumped(engine, PoolKey(instance="decode-0"))]


def _two_groups(rng: random.Random, traits: set[str]) -> list[AuditedPool]:
    traits.add("several groups")
    return [
        dumped(_engine(rng, traits), PoolKey(group="target")),
        dumped(_engine(rng, traits), PoolKey(group="draft")),
    ]


def _with_window_pool(rng: random.Random, traits: set[str]) -> list[AuditedPool]:
    """A full pool with a map to the pool of a window's layers."""
    traits.add("a window pool")
    full, size = _engine(rng, traits, window=True), rng.choice([1, 4, 16])
    window, mapping = rng.randint(1, 40), np.zeros(full.world.num_slots, dtype=np.int64)
    num_slots = size * (2 + full.world.num_slots // size)
    swa = _engine(rng, traits, num_slots=num_slots, page_size=size, window=True)
    swa.token_offset, swa.position_offset = full.token_offset, full.position_offset
    targets = iter(rng.sample(range(size, num_slots), num_slots - size))
    for request in full.world.requests:
        first = max(0, request.kv_len - window - request.start_position)
        for slot in request.slots[first : request.kv_len - request.start_position]:
            if slot and not mapping[slot]:
                mapping[slot] = next(targets)
                _map_slot(full, swa, source=slot, target=int(mapping[slot]))
        slots = [int(mapping[slot]) for slot in request.slots]
        swa.world.requests.append(replace(request, slots=slots))
    full.world.evidence["swa_slot"] = mapping
    given = rng.choice([{}, {"window": window}])
    return [
        dumped(full, PoolKey(), **given),
        dumped(swa, PoolKey(pool_kind=PoolKind.SWA), window=window),
    ]


def _map_slot(full: CleanEngine, swa: CleanEngine, *, source: int, target: int) -> None:
    """What a forward writes to a slot, the layers of a window have in theirs."""
    if source in full.unstamped:
        swa.unstamped.add(target)
    if source in full.written:
        swa.write(target, full.written[source])


def _engine(
    rng: random.Random,
    traits: set[str],
    *,
    num_slots: int = 0,
    page_size: int = 0,
    window: bool = False,
) -> CleanEngine:
    """An engine after some requests, or with an empty pool of a given size."""
    size = page_size or rng.choice([1, 2, 3, 16, 64])
    num_pages = num_slots // size or {1: 100, 2: 60, 3: 50, 16: 14, 64: 8}[size]
    reserved = rng.choice(["0", "none", f"0-{size - 1}"])
    if window:
        reserved = "0"
    world = _world(rng, traits, num_slots=num_pages * size, page_size=size, reserved=reserved)
    pages = list(range(0 if reserved == "none" else 1, num_pages))
    rng.shuffle(pages)
    engine = CleanEngine(rng=rng, world=world, traits=traits, pages=pages)
    if rng.random() < 0.2:
        engine.token_offset = rng.randint(1, 3)
        traits.add("token offset declared")
    if rng.random() < 0.2:
        engine.position_offset = rng.choice([1, 7, 4096])
        traits.add("position offset declared")
    if rng.random() < 0.3:
        engine.num_words = rng.choice([3, 30])
        traits.add("prompts that begin alike")
    if rng.random() < 0.3:
        engine.has_layer_0 = True
        traits.add("layer 0 of tokens")
    if not num_slots:
        engine.leave_old_content()
        for number in range(rng.randint(1, 5)):
            engine.serve(f"R{number}")
    if reserved != "none":
        _spoil_record_0(engine)
    return engine


def _world(
    rng: random.Random, traits: set[str], *, num_slots: int, page_size: int, reserved: str
) -> World:
    fused = rng.random() < 0.25
    halves = ("kv",) if fused else ("k", "v")
    layers = range(rng.randint(1, 3))
    names = [f"kv.{half}.{layer}" for layer in layers for half in halves]
    side = ["kv.side.scales"] if rng.random() < 0.25 else []
    traits |= {name for name, has in (("fused KV", fused), ("side buffers", side)) if has}
    mode, width = rng.choice(list(RealKvHashMode)), rng.choice([16, 24, 40])
    some = rng.sample(names, rng.randint(1, len(names)))
    canary = rng.choice(_BUFFERS)
    world = World(
        num_slots=num_slots,
        page_size=page_size,
        reserved=SlotRanges.parse(reserved),
        mode=mode,
        stamped_columns=() if mode is RealKvHashMode.NONE else tuple(some),
        key=PoolKey(),
        records={name: np.zeros((num_slots, 4), dtype=np.uint64) for name in canary},
        kv={name: np.zeros((num_slots, width), dtype=np.uint8) for name in (*names, *side)},
        stamps={
            name: np.zeros(num_slots, dtype=np.uint64)
            for name in rng.choice([[], some, [*names, *side]])
        },
        read_bytes=width,
    )
    if "k.head" in canary:
        traits.add("HEAD without real_kv_hash")
    return world


def _spoil_record_0(engine: CleanEngine) -> None:
    """Padding rows write to slot 0: its record is anything, and so are its bytes."""
    for records in engine.world.records.values():
        records[0] = [engine.rng.getrandbits(64) for _ in range(4)]
        engine.traits.add("record 0 is anything")
    for data in engine.world.kv.values():
        data[0] = engine.rng.getrandbits(8) & FINITE
