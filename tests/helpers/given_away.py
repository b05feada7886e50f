"""Pools with what was saved of their slots when these were given away."""

from __future__ import annotations

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.given_away import given_away_key
from kvaudit.core.sequences import SequenceState
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, build


def saved_pool(number: int = 1, *, request_id: str = "F", tokens: range = range(71, 75)) -> World:
    """A finished request that had slots 6 to 9, as it was then."""
    world = build(stamps=F_STAMPS)
    slots = range(6, 6 + len(tokens))
    world.request(request_id, tokens=tokens, slots=slots, state=SequenceState.FINISHED)
    done = world.done()
    done.key = given_away_key(done.key, number)
    return done


def audited_pool(world: World) -> AuditedPool:
    """A world with its sequences."""
    return AuditedPool(snapshot=world.snapshot(key=world.key), sequences=(world.sequences(),))


def with_saved(world: World, *saved: World) -> Dataset:
    """A pool beside what was saved of it."""
    return Dataset(pools=[audited_pool(each) for each in (world, *saved)])


def write_late(world: World, saved: World, slots: list[int]) -> None:
    """The bytes that a finished request had in some slots land there again."""
    for name, data in world.kv.items():
        data[slots] = saved.kv[name][slots]
