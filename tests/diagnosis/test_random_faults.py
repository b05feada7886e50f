"""One fault at a random place of a random pool is named by the right rule, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import report_of
from tests.helpers.worlds import World, build, link

WORLDS = 25
BUFFERS = (("k.tail",), ("k.head", "k.tail"), ("k.tail", "v.tail"))


def _world(rng: random.Random) -> World:
    """Requests on scattered pages; some begin with another's prompt, on slots of their own."""
    page_size = rng.choice([1, 2, 3, 16])
    pages = list(range(1, 200))
    rng.shuffle(pages)
    builder = build(
        num_slots=200 * page_size,
        page_size=page_size,
        num_layers=1,
        mode=rng.choice(list(RealKvHashMode)),
        canary=rng.choice(BUFFERS),
    )
    for number in range(rng.choice([2, 3, 5])):
        num_pages = rng.randint(4, 6) if page_size > 1 else rng.randint(6, 30)
        length = num_pages * page_size - rng.randint(0, page_size - 1)
        chosen = [pages.pop() for _ in range(num_pages)]
        slots = [page * page_size + offset for page in chosen for offset in range(page_size)]
        tokens = [rng.randint(1, 120_000) for _ in range(length + 1)]
        if number and rng.random() < 0.4:
            prompt = builder.world.requests[0].tokens[: rng.randint(1, length)]
            tokens[: len(prompt)] = prompt
        builder.request(f"R{number}", tokens=tokens, slots=slots[:length])
    return builder.done()


def _late_writer(world: World, rng: random.Random) -> set[int]:
    request = rng.choice(world.requests)
    first = rng.randrange(len(request.slots))
    slots = request.slots[first : first + rng.randint(1, 4)]
    prev_hash, position = rng.getrandbits(64), rng.choice([first, rng.randrange(1000)])
    for idx, slot in enumerate(slots):
        token = rng.randint(1, 120_000)
        corruptions.overwrite_slot(
            world, slot, token=token, position=position + idx, prev_hash=prev_hash
        )
        prev_hash = link(prev_hash, token, position + idx)
    return {slots[0]}


def _flip(world: World, rng: random.Random) -> set[int]:
    slot = rng.choice(rng.choice(world.requests).slots[:-1])
    corruptions.flip_record_bit(world, slot, rng.randrange(3), bit=rng.randrange(64))
    return {slot}


def _position_shift(world: World, rng: random.Random) -> set[int]:
    request = rng.choice(world.requests)
    first = rng.randrange(len(request.slots))
    delta = rng.choice([1, -1, 7, 64])
    corruptions.shift_positions(world, request.request_id, first=first, delta=delta)
    return set(request.slots[first:])


def _wrong_token(world: World, rng: random.Random) -> set[int]:
    request = rng.choice(world.requests)
    position = rng.randrange(len(request.slots))
    corruptions.wrong_token(world, request.request_id, position=position, token=200_000)
    return {request.slots[position]}


def _slot_shift(world: World, rng: random.Random) -> set[int]:
    request = rng.choice(world.requests)
    first = rng.randrange(1, len(request.slots) - 2)
    corruptions.shift_slots(world, request.request_id, first=first, by=rng.choice([1, -1]))
    return set(request.slots[first + 1 : -1])


def _missing(world: World, rng: random.Random) -> set[int]:
    request = rng.choice(world.requests)
    first = rng.randrange(len(request.slots))
    slots = request.slots[first : rng.randint(first + 1, len(request.slots))]
    corruptions.zero_slots(world, slots, data=False)
    return set(slots)


def _swapped_pages(world: World, rng: random.Random) -> set[int]:
    """Not first pages, since no record tells whose head is whose; of different positions."""
    size = world.page_size
    places = [
        (number, request.slots[number * size] // size)
        for request in world.requests
        for number in range(1, len(request.slots) // size)
    ]
    one = rng.choice(places)
    other = rng.choice([place for place in places if place[0] != one[0]])
    corruptions.swap_pages(world, one[1], other[1])
    return {page * size + offset for page in (one[1], other[1]) for offset in range(size)}


FAULTS: dict[str, Callable[[World, random.Random], set[int]]] = {
    "KV201": _wrong_token,
    "KV203": _late_writer,
    "KV204": _position_shift,
    "KV205": _swapped_pages,
    "KV206": _slot_shift,
    "KV208": _flip,
    "KV209": _missing,
}


@pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
@pytest.mark.parametrize("rule", FAULTS)
def test_a_random_fault_is_named_by_its_rule_alone(rule: str, tokens: bool) -> None:
    found = 0
    for seed in range(WORLDS):
        rng = random.Random(f"{rule} {seed}")  # noqa: S311 - a test
        world = _world(rng)
        slots = FAULTS[rule](world, rng)
        report = report_of(world, tokens=tokens)
        findings = [finding for finding in report.findings if not finding.rule.startswith("KV0")]
        if not report.violations_total:
            assert not findings
            continue
        found += 1
        assert [finding.rule for finding in findings] == [rule], seed
        assert slots <= set(findings[0].slots), seed
        assert findings[0].evidence["rows"] == report.violations_total, seed
    # A foreign token, or one at the end, is nothing that an audit without tokens can see.
    assert found >= (0 if rule == "KV201" and not tokens else WORLDS * 4 // 5)
