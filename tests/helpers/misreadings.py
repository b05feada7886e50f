"""Pools whose bytes were sliced with the wrong geometry; each asserts that it changed something."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.helpers.worlds import World


def read_pages_of(world: World, true_page_size: int) -> None:
    """Pages of another size, read with the pool's own."""
    page_size = world.page_size
    _reread(world, lambda s: true_page_size * (s // page_size) + s % page_size)


def read_with_stride(world: World, stride: int, *, start: int = 0) -> None:
    """Every stride-th slot, from another one than slot 0 on."""
    _reread(world, lambda s: stride * s + start)


def read_packed(world: World, block: int) -> None:
    """Blocks of K and V in turn, read as one half after the other."""
    before = {name: data.copy() for name, data in world.kv.items()}
    for name in world.kv:
        _, half, layer = name.split(".")
        first = 0 if half == "k" else world.num_slots // block
        pair = before[f"kv.k.{layer}"], before[f"kv.v.{layer}"]
        for slot in range(world.num_slots):
            number = slot // block + first
            home = number // 2 * block + slot % block
            world.kv[name][slot] = pair[number % 2][home]


def exchange_halves(world: World) -> None:
    """K in the place of V, and V in that of K."""
    for name in [name for name in world.kv if name.startswith("kv.k.")]:
        other = name.replace("kv.k.", "kv.v.")
        world.kv[name], world.kv[other] = world.kv[other], world.kv[name]
        assert (world.kv[name] != world.kv[other]).any()


def _reread(world: World, home_of: Callable[[np.ndarray], np.ndarray]) -> None:
    homes = home_of(np.arange(world.num_slots))
    inside = (homes >= 0) & (homes < world.num_slots)
    assert (homes != np.arange(world.num_slots)).any()
    for data in world.kv.values():
        before = data.copy()
        data[:] = 0
        data[inside] = before[homes[inside]]
