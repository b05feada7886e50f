"""Several faults of bytes in a random pool are each named by the right rule, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import findings_of
from tests.helpers.worlds import Request, World, build, content

WORLDS = 12
LAYERS = 5
NAMES = [f"kv.{half}.{layer}" for layer in range(LAYERS) for half in "kv"]

Named = tuple[str, set[int]]


def _world(rng: random.Random) -> World:
    """Requests on scattered pages, stamped by columns, in their records, or in both."""
    page_size = rng.choice([1, 2, 16, 64])
    pages = list(range(1, 90))
    rng.shuffle(pages)
    mode = rng.choice([RealKvHashMode.NONE, RealKvHashMode.ALL])
    builder = build(
        num_slots=91 * page_size,
        page_size=page_size,
        num_layers=LAYERS,
        row_bytes=64,
        mode=mode,
        canary=("k.head", "k.tail", "v.head", "v.tail"),
        stamped_columns=tuple(NAMES[: rng.choice([2, 6])]),
        stamps=NAMES,
    )
    for number in range(5):
        num_pages = -(-12 // page_size) + rng.randint(0, 2)
        length = num_pages * page_size - rng.randint(0, min(page_size, 12) - 1)
        chosen = [pages.pop() for _ in range(num_pages)]
        slots = [page * page_size + offset for page in chosen for offset in range(page_size)]
        tokens = [rng.randint(1, 120_000) for _ in range(length + 1)]
        builder.request(f"R{number}", tokens=tokens, slots=slots[:length])
    return builder.done()


def _flip(world: World, request: Request, rng: random.Random) -> Named:
    slot = rng.choice(request.slots)
    corruptions.flip_bit(world, rng.choice(NAMES), slot, bit=rng.randrange(512))
    return "KV304", {slot}


def _overwrite(world: World, request: Request, rng: random.Random) -> Named:
    first = rng.randrange(len(request.slots))
    slots = request.slots[first : first + rng.randint(1, 4)]
    for slot in slots:
        corruptions.overwrite_bytes(world, slot, token=130_000, position=slot)
    return "KV301", set(slots)


def _zero_tail(world: World, request: Request, rng: random.Random) -> Named:
    slots = request.slots[rng.randrange(1, len(request.slots)) :]
    corruptions.zero_slots(world, slots, records=rng.random() < 0.5)
    return "KV302", set(slots)


def _not_arrived(world: World, request: Request, _rng: random.Random) -> Named:
    corruptions.zero_slots(world, request.slots)
    return "KV311", set(request.slots)


def _permuted(world: World, request: Request, rng: random.Random) -> Named:
    one, other = rng.sample(request.slots, 2)
    for data in world.kv.values():
        data[[one, other]] = data[[other, one]]
    return "KV310", {one, other}


def _padding(world: World, request: Request, rng: random.Random) -> Named:
    slot = rng.choice(request.slots)
    for name, data in world.kv.items():
        data[[0, slot]] = content(name, 0, 0, data.shape[1])
    return "KV309", {slot}


def _torn(world: World, request: Request, rng: random.Random) -> Named:
    slot = rng.choice(request.slots)
    donor = rng.choice([other for other in request.slots if other != slot])
    part = rng.choice([slice(0, 24), slice(40, 64)])
    for data in world.kv.values():
        data[slot, part] = data[donor, part]
    return "KV303", {slot}


FAULTS: list[Callable[[World, Request, random.Random], Named]] = [
    _flip, _overwrite, _zero_tail, _not_arrived, _permuted, _padding, _torn,
]  # fmt: skip


@pytest.mark.parametrize("tokens", [False, True], ids=["real", "token"])
@pytest.mark.parametrize("seed", range(WORLDS))
def test_each_of_several_random_faults_is_named_by_its_rule(seed: int, tokens: bool) -> None:
    rng = random.Random(seed)  # noqa: S311 - a seed gives the same pool
    world = _world(rng)
    requests = rng.sample(world.requests, 3)
    wanted = [
        fault(world, request, rng)
        for fault, request in zip(rng.sample(FAULTS, 3), requests, strict=True)
    ]
    found = [(finding.rule, set(finding.slots)) for finding in findings_of(world, tokens=tokens)]
    assert sorted(found, key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_digests_alone_name_what_needs_no_bytes(seed: int) -> None:
    rng = random.Random(1000 + seed)  # noqa: S311 - see above
    world = _world(rng)
    faults = rng.sample([_overwrite, _zero_tail, _not_arrived, _permuted, _padding], 3)
    wanted = [
        fault(world, request, rng)
        for fault, request in zip(faults, rng.sample(world.requests, 3), strict=True)
    ]
    dataset = world.dataset(snapshot=world.snapshot(digests_only=True))
    found = [(finding.rule, set(finding.slots)) for finding in findings_of(dataset)]
    assert sorted(found, key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_random_clean_pool_has_no_finding(seed: int) -> None:
    rng = random.Random(2000 + seed)  # noqa: S311 - see above
    assert not findings_of(_world(rng))
