"""Where the engine keeps a request's KV, checked against its own indices and views."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import ContinuousBatchingConfig, Qwen2Config
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.distributed import DistributedHelper

from kvaudit.capture.layouts import slot_views
from kvaudit.capture.transformers_cache import block_slots, recorded_pools, request_slots

PAGE_SIZE, WINDOW = 8, 20


@pytest.fixture
def cache() -> PagedAttentionCache:
    """Three layers in two groups, one request of 29 tokens in each."""
    config = Qwen2Config(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        use_sliding_window=True,
        sliding_window=WINDOW,
    )
    config._attn_implementation = "sdpa"
    made = PagedAttentionCache(
        config=config,
        continuous_batching_config=ContinuousBatchingConfig(
            page_size=PAGE_SIZE,
            num_blocks=16,
            max_batch_tokens=32,
            use_async_batching=False,
            max_blocks_per_request=0,
            max_memory_percent=0.5,
        ),
        device=torch.device("cpu"),
        distributed_helper=DistributedHelper(None, None, {}),
        dtype=torch.bfloat16,
    )
    for allocator in made.cache_allocators.values():
        for _ in range(4):
            made.pool.allocate_sector(allocator.index)
        allocator.allocate_cache_to_request("a", 0, 29)
    return made


def test_every_layer_is_in_the_pool_of_its_group(cache: PagedAttentionCache) -> None:
    pools = {str(pool.name): pool for pool in recorded_pools(cache)}
    assert {name: list(pool.kv) for name, pool in pools.items()} == {"SWA": [0, 2], "FULL": [1]}
    assert (pools["SWA"].window, pools["FULL"].window) == (WINDOW, None)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_slot_is_where_the_engine_writes(cache: PagedAttentionCache, layer: int) -> None:
    allocator = cache.layer_to_allocator[layer]
    kept = range(max(0, 29 - WINDOW), 29) if hasattr(allocator, "sliding_window") else range(29)
    (pool,) = (pool for pool in recorded_pools(cache) if layer in pool.kv)
    slots = request_slots(allocator, "a", 29)
    assert len(slots) == len(kept)
    write_index = torch.tensor(allocator.get_write_indices("a", 0, 29))
    numbers = torch.arange(1, 30, dtype=torch.bfloat16)[:, None, None].expand(29, 2, 8)
    no_read = torch.empty(0, dtype=torch.int64)
    allocator.update(numbers, -numbers, layer, no_read, write_index)
    views = slot_views(pool.kv, layout=pool.layout, page_size=PAGE_SIZE, layers=[layer])
    for view, sign in zip(views, (1, -1), strict=True):
        rows = torch.from_numpy(view.gather(slots)).view(torch.bfloat16)
        assert rows[:, 0].tolist() == [sign * (position + 1) for position in kept]
        assert (rows == rows[:, :1]).all()


def test_the_trash_sectors_are_reserved(cache: PagedAttentionCache) -> None:
    for pool, allocator in zip(recorded_pools(cache), cache.cache_allocators.values(), strict=True):
        last_reserved = int(pool.reserved_slots.removeprefix("0-"))
        sector_slots = allocator.blocks_per_sector * PAGE_SIZE
        assert last_reserved == 2 * sector_slots - 1
        assert request_slots(allocator, "a", 29).min() > last_reserved


def test_a_block_is_its_slots_in_order(cache: PagedAttentionCache) -> None:
    allocator = cache.layer_to_allocator[1]
    assert block_slots(allocator, [3, 1]).tolist() == [*range(24, 32), *range(8, 16)]
    assert block_slots(allocator, []).dtype == np.int64
