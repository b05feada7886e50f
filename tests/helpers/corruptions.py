"""Named damages of a world; each asserts that it changed something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from kvaudit.runner.inject.content import move_rows
from tests.helpers.worlds import HEAD_HASH, World, content, link

Corruption = Callable[[World], None]

TOKEN, POSITION, PREV_HASH, REAL_KV_HASH = range(4)


@contextmanager
def _changing(world: World) -> Iterator[None]:
    before = _state(world)
    yield
    assert _state(world) != before, "the damage changed nothing"


def _all(world: World) -> list[np.ndarray]:
    return [*world.kv.values(), *world.records.values(), *world.stamps.values()]


def _state(world: World) -> list[bytes]:
    arrays = [*world.records.values(), *world.kv.values(), *world.stamps.values()]
    return [array.tobytes() for array in arrays] + [str(world.requests).encode()]


def overwrite_bytes(world: World, slot: int, *, token: int = 99, position: int = 1) -> None:
    """A late writer's KV bytes land in every column of a slot."""
    with _changing(world):
        for name, data in world.kv.items():
            data[slot] = content(name, token, position, data.shape[1])


def overwrite_slot(world: World, slot: int, *, token: int, position: int, prev_hash: int) -> None:
    """A late writer's bytes and record land on a slot, consistent with each other."""
    overwrite_bytes(world, slot, token=token, position=position)
    with _changing(world):
        world.stamp_record(slot, token=token, position=position, prev_hash=prev_hash)


def stamp_before_bytes(world: World, slot: int) -> None:
    """The stamp covered what the slot held before; its own bytes landed afterwards."""
    overwrite_bytes(world, slot, token=22, position=1001)


def stamp_nan(world: World, slot: int) -> None:
    """NaN bytes (bfloat16) were stamped as they are."""
    with _changing(world):
        for data in world.kv.values():
            data[slot].view("<u2")[:] = 0x7FC0
        for column, records in world.records.items():
            records[slot, REAL_KV_HASH] = world.real_kv_hash(slot, column.split(".")[0])
        world.stamp_digests(slot)


def shift_positions(world: World, request_id: str, *, first: int, delta: int) -> None:
    """Positions were stamped off by delta from one position on, and chained so."""
    with _changing(world):
        request = world.request_of(request_id)
        _restamp(
            world, request_id, positions=[p + delta * (p >= first) for p in range(request.kv_len)]
        )


def wrong_token(world: World, request_id: str, *, position: int, token: int) -> None:
    """Another token was stamped and chained at a position."""
    with _changing(world):
        tokens = list(world.request_of(request_id).tokens)
        tokens[position] = token
        _restamp(world, request_id, tokens=tokens)


def _restamp(
    world: World,
    request_id: str,
    *,
    tokens: list[int] | None = None,
    positions: list[int] | None = None,
) -> None:
    request = world.request_of(request_id)
    running = HEAD_HASH
    for idx, slot in enumerate(request.slots[: request.kv_len]):
        token = request.tokens[idx] if tokens is None else tokens[idx]
        position = idx if positions is None else positions[idx]
        world.stamp_record(slot, token=token, position=position, prev_hash=running)
        running = link(running, token, position)


def swap_pages(world: World, one: int, other: int, *, records: bool = True) -> None:
    """Two pages change places: bytes, and records with them or not."""
    first = np.arange(one * world.page_size, (one + 1) * world.page_size)
    second = np.arange(other * world.page_size, (other + 1) * world.page_size)
    arrays = (*world.kv.values(), *(world.records.values() if records else ()))
    with _changing(world):
        move_rows(arrays, np.concatenate((second, first)), np.concatenate((first, second)))


def zero_slots(world: World, slots: list[int], *, records: bool = True, data: bool = True) -> None:
    """Something never arrived in some slots: records, bytes or both."""
    with _changing(world):
        for array in (
            *(world.kv.values() if data else ()),
            *(world.records.values() if records else ()),
        ):
            array[slots] = 0


def copy_chain(world: World, source: str, target: str) -> None:
    """A request's slots hold another one's records and bytes from position 0."""
    with _changing(world):
        move_rows(_all(world), world.request_of(source).slots, world.request_of(target).slots)


def flip_bit(world: World, column: str, slot: int, *, bit: int = 3) -> None:
    """One bit of a KV column of a slot."""
    with _changing(world):
        world.kv[column][slot, bit // 8] ^= np.uint8(1 << (bit % 8))


def flip_record_bit(world: World, slot: int, word: int, *, bit: int = 2) -> None:
    """One bit of a word of a slot's records."""
    with _changing(world):
        for records in world.records.values():
            records[slot, word] ^= np.uint64(1 << bit)


def retoken(world: World, request_id: str, *, position: int, token: int) -> None:
    """The expectation itself names another token."""
    with _changing(world):
        world.request_of(request_id).tokens[position] = token


def permute_pages(world: World, pages: list[int]) -> None:
    """Pages go round: each takes the place of the one after it."""
    offsets = np.arange(world.page_size)
    slots = np.array(pages)[:, None] * world.page_size + offsets
    targets = np.roll(slots, -1, axis=0).ravel()
    with _changing(world):
        move_rows(_all(world), slots.ravel(), targets)


def shift_slots(world: World, request_id: str, *, first: int, by: int) -> None:
    """From an entry on, all content was written so many entries too far, or too early."""
    slots = world.request_of(request_id).slots
    moved = range(first, len(slots) - max(by, 0))
    sources = np.array([slots[idx] for idx in moved])
    targets = np.array([slots[idx + by] for idx in moved])
    with _changing(world):
        move_rows(_all(world), sources, targets)
        for array in _all(world) if by > 0 else ():
            array[slots[first : first + by]] = 0


def copy_slots(world: World, sources: list[int], targets: list[int]) -> None:
    """Slots hold what others hold: records, bytes and stamps."""
    with _changing(world):
        move_rows(_all(world), sources, targets)


def stamp_other_tokens(world: World, request_id: str, *, offset: int) -> None:
    """Every position was stamped, and chained, with the token so many positions on."""
    request = world.request_of(request_id)
    later = [*request.tokens[offset:], *range(9001, 9001 + offset)]
    with _changing(world):
        _restamp(world, request_id, tokens=later)


def drift_positions(world: World, request_id: str, *, first: int) -> None:
    """From one position on each was stamped one further off than the one before."""
    length = world.request_of(request_id).kv_len
    with _changing(world):
        _restamp(world, request_id, positions=[p + max(0, p - first + 1) for p in range(length)])


def rechain(world: World, request_id: str) -> None:
    """A request's records are chained by the tokens and positions that they have."""
    slots = world.request_of(request_id).slots
    with _changing(world):
        for records in world.records.values():
            running = HEAD_HASH
            for slot in slots:
                records[slot, PREV_HASH] = running
                running = link(running, int(records[slot, TOKEN]), int(records[slot, POSITION]))


def exchange_table_pages(
    world: World, request_id: str, one: int, other: int, *, new_tokens: Sequence[int] = ()
) -> None:
    """Two entries of a block table changed places, and the request went on to write."""
    request, size = world.request_of(request_id), world.page_size
    table = [slot // size for slot in request.slots[::size]]
    table[one], table[other] = table[other], table[one]
    first_new = len(request.slots)
    request.tokens = [*request.tokens[:first_new], *new_tokens]
    request.kv_len = first_new + len(new_tokens)
    with _changing(world):
        request.slots = [
            table[position // size] * size + position % size for position in range(request.kv_len)
        ]
        for position in range(first_new, request.kv_len):
            token = new_tokens[position - first_new]
            before, slot = request.slots[position - 1 : position + 1]
            for name, data in world.kv.items():
                data[slot] = content(name, token, position, data.shape[1])
            record = next(iter(world.records.values()))[before]
            prev_hash = link(int(record[PREV_HASH]), int(record[TOKEN]), int(record[POSITION]))
            world.stamp_record(slot, token=token, position=position, prev_hash=prev_hash)
            world.stamp_digests(slot)
