"""Pools of several sequences over many pages, for the same faults at other sizes."""

from __future__ import annotations

from tests.helpers.worlds import World, build

PAGE_SIZES = (1, 16, 64)


def long_pool(
    page_size: int, *, num_pages: int = 4, num_requests: int = 3, **options: object
) -> World:
    """Requests R0, R1, ... of whole pages and a few slots more, one behind the other.

    The tokens of request r are 1000 * (r + 1) and on; the first page and the last are free.
    """
    length = num_pages * page_size + 5
    pages_each = -(-length // page_size)
    builder = build(
        **{
            "num_slots": (2 + num_requests * pages_each) * page_size,
            "page_size": page_size,
            "num_layers": 1,
            **options,
        }
    )
    for number in range(num_requests):
        first = (1 + number * pages_each) * page_size
        tokens = range(1000 * (number + 1), 1000 * (number + 1) + length)
        builder.request(f"R{number}", tokens=tokens, slots=range(first, first + length))
    return builder.done()


def page_of(world: World, request_id: str, number: int) -> int:
    """The number-th page of a request."""
    return world.request_of(request_id).slots[number * world.page_size] // world.page_size


def slots_of_pages(world: World, pages: list[int]) -> list[int]:
    """All slots of some pages, ascending."""
    size = world.page_size
    return sorted(slot for page in pages for slot in range(page * size, (page + 1) * size))
