"""Pools whose bytes are numbers of a known type, all of them finite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.snapshot import Snapshot
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, fixture_f

BAD_WORDS = {"nan": 0x7FC0, "inf": 0x7F80, "-inf": 0xFF80}


def finite_world(**options: object) -> World:
    """Fixture F with stamps, as finite numbers of bfloat16."""
    world = fixture_f(**{"stamps": F_STAMPS, "row_bytes": 64, **options})
    for data in world.kv.values():
        data[:, 1::2] &= 0xBF
    for request in world.requests:
        for slot in request.slots:
            world.stamp_digests(slot)
    return world


def put_word(world: World, column: str, slot: int, word: int, *, element: int = 3) -> None:
    """Another bfloat16 in the place of one element."""
    elements = world.kv[column][slot].view("<u2")
    assert elements[element] != word, "the damage changed nothing"
    elements[element] = word


def typed(world: World, dtype: str = "bfloat16", **options: object) -> Snapshot:
    """The pool with a type in its columns."""
    snapshot = world.snapshot(**options)
    columns = {name: replace(column, dtype=dtype) for name, column in snapshot.kv.items()}
    return replace(snapshot, kv=columns)


def poison(world: World, slot: int) -> None:
    """NaN in all of a slot's columns, stamped as it is."""
    for name in world.kv:
        world.kv[name][slot].view("<u2")[:] = np.uint16(BAD_WORDS["nan"])
    world.stamp_digests(slot)
