"""A pool's memory as launches read it is that which is dumped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kvaudit.capture.launch_sources import launch_source
from kvaudit.capture.layouts import slot_views
from kvaudit.errors import ConfigError

PAGES, PAGE_SIZE, HEADS, DIM = 5, 4, 2, 8


def _tensor(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(torch.int16)


LAYOUTS = {
    "a tensor a half": (
        [(_tensor(PAGES, PAGE_SIZE, HEADS, DIM), _tensor(PAGES, PAGE_SIZE, HEADS, DIM) + 7)],
        "page slot head dim",
    ),
    "both halves in one": ([_tensor(2, PAGES, PAGE_SIZE, HEADS, DIM)], "kv page slot head dim"),
    "halves in each page": ([_tensor(PAGES, 2, PAGE_SIZE, HEADS, DIM)], "page kv slot head dim"),
    "halves in each slot": ([_tensor(PAGES, PAGE_SIZE, 2, HEADS, DIM)], "page slot kv head dim"),
    "no pages": ([_tensor(PAGES * PAGE_SIZE, 2, HEADS, DIM)], "slot kv head dim"),
    "layers in each page": (
        _tensor(PAGES, 3, 2, PAGE_SIZE, HEADS, DIM),
        "page layer kv slot head dim",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_slots_bytes_are_where_the_source_says(name: str) -> None:
    kv, layout = LAYOUTS[name]
    slots = np.arange(PAGES * PAGE_SIZE)
    for view in slot_views(kv, layout=layout, page_size=PAGE_SIZE):
        source = launch_source(view)
        assert source.read_bytes == source.num_bytes_per_token == HEADS * DIM * 2
        rows = source.tensor.contiguous().view(torch.uint8).numpy()
        in_row = rows.reshape(len(rows), source.page_size, source.num_bytes_per_token)
        read = in_row[slots // source.page_size, slots % source.page_size]
        assert np.array_equal(read, view.gather(slots))
        assert source.tensor.untyped_storage().data_ptr() == view.rows.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    ("kv", "layout"),
    [
        ([_tensor(2, PAGES, HEADS, PAGE_SIZE, DIM)], "kv page head slot dim"),
        ([_tensor(PAGES, PAGE_SIZE, HEADS, 2, DIM)], "page slot head kv dim"),
    ],
)
def test_a_token_whose_bytes_lie_apart_is_refused_by_name(kv: Any, layout: str) -> None:
    view = slot_views(kv, layout=layout, page_size=PAGE_SIZE)[0]
    with pytest.raises(ConfigError, match=r"^kv\.k\.0: ") as refused:
        launch_source(view)
    assert "real_kv_hash_mode" in refused.value.hint
