"""Which slots lie on memory that is written, against a comparison byte by byte."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvaudit.capture.layouts import slot_views
from kvaudit.capture.slot_memory import memory_of, overlaps


def bytes_of(start: int, end: int) -> set[int]:
    return set(range(start, end))


@pytest.mark.parametrize("seed", range(20))
def test_slots_that_share_a_byte_with_what_is_written_are_found(seed: int) -> None:
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, 60, (2, 6))
    memory = np.stack([starts, starts + generator.integers(1, 9, (2, 6))], axis=-1)
    begins = generator.integers(0, 60, 3)
    written = np.stack([begins, begins + generator.integers(1, 9, 3)], axis=-1)
    taken = set().union(*(bytes_of(*span) for span in written))
    expected = [any(bytes_of(*column[slot]) & taken for column in memory) for slot in range(6)]
    assert overlaps(memory, written).tolist() == expected


def test_nothing_written_touches_nothing() -> None:
    memory = np.array([[[0, 8], [8, 16]]])
    assert not overlaps(memory, np.empty((0, 2), dtype=np.int64)).any()


@pytest.mark.parametrize(
    "layout", ["page slot head dim", "page head slot dim", "slot page head dim"]
)
def test_memory_is_where_the_bytes_of_a_slot_are(layout: str) -> None:
    sizes = {"page": 3, "slot": 4, "head": 2, "dim": 5}
    words = layout.split()
    tensor = torch.zeros([sizes[word] for word in words], dtype=torch.int16)
    views = slot_views([tensor], layout=layout, page_size=4)
    (spans,) = memory_of(views, np.arange(12))
    for slot, (start, end) in enumerate(spans):
        place = {"page": slot // 4, "slot": slot % 4}
        index = tuple(place.get(word, slice(None)) for word in words)
        token = tensor[index]
        last = sum((n - 1) * stride for n, stride in zip(token.shape, token.stride(), strict=True))
        assert (start, end) == (token.data_ptr(), token.data_ptr() + 2 * last + 2)
