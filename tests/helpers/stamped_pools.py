"""Pools whose bytes are stamped: deep ones of some page size, and one with a shared prefix."""

from __future__ import annotations

from collections.abc import Sequence

from kvaudit.constants import RealKvHashMode
from tests.helpers.worlds import World, build

LAYERS = 30
COLUMNS = tuple(f"kv.{half}.{layer}" for layer in range(LAYERS) for half in "kv")
F_STAMPS = ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")


def deep_pool(
    page_size: int,
    *,
    length: int = 32,
    stamps: Sequence[str] = COLUMNS,
    mode: RealKvHashMode = RealKvHashMode.NONE,
    stamped_columns: Sequence[str] = (),
) -> World:
    """Requests A and B in 30 layers, each over whole pages that no other one has."""
    room = -(-length // page_size) * page_size
    return (
        build(
            num_slots=4 * max(page_size, 16) + 2 * room,
            page_size=page_size,
            num_layers=LAYERS,
            row_bytes=32,
            mode=mode,
            stamped_columns=stamped_columns,
            stamps=stamps,
        )
        .request("A", tokens=range(1000, 1000 + length), slots=range(page_size, page_size + length))
        .request(
            "B",
            tokens=range(5000, 5000 + length),
            slots=range(page_size + room, page_size + room + length),
        )
        .done()
    )


def shared_prefix() -> World:
    """Requests A and C, whose first two slots are the same."""
    return (
        build(stamps=F_STAMPS)
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2)
        .done()
    )
