"""What the engine caches of requests that are done, followed through its own ledger."""

from __future__ import annotations

import pytest
import torch
from transformers import ContinuousBatchingConfig, Qwen2Config
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.distributed import DistributedHelper

from kvaudit.capture.transformers_cache import block_slots
from kvaudit.capture.transformers_prefixes import CachedBlocks

PAGE_SIZE = 8
TOKENS = list(range(100, 129))


class Engine:
    """An allocator whose requests are complete as soon as they come."""

    def __init__(self) -> None:
        config = Qwen2Config(
            hidden_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2
        )
        config._attn_implementation = "sdpa"
        self.cache = PagedAttentionCache(
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
        (self.allocator,) = self.cache.cache_allocators.values()
        for _ in range(16):
            self.cache.pool.allocate_sector(self.allocator.index)
        self.cached = CachedBlocks(self.allocator)

    def run(self, name: str, tokens: list[int]) -> list[int]:
        """Serve a request; its blocks."""
        shared = self.cache.search_prefix_match(name, tokens)
        self.allocator.allocate_cache_to_request(name, shared, len(tokens) - shared)
        self.allocator.mark_complete_blocks(name, tokens, (len(tokens) - shared) // PAGE_SIZE)
        return list(self.allocator.block_table[name])

    def leave(self, name: str, tokens: list[int], *, no_cache: bool = False) -> None:
        self.cached.keep(name, tokens)
        self.cache.free_blocks(name, no_cache)

    def slots(self, blocks: list[int]) -> list[int]:
        return block_slots(self.allocator, blocks).tolist()


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_complete_blocks_of_a_request_that_is_done_are_a_prefix(engine: Engine) -> None:
    blocks = engine.run("a", TOKENS)
    assert engine.cached.current() == {}
    engine.leave("a", TOKENS)
    ((name, prefix),) = engine.cached.current().items()
    assert prefix.slots.tolist() == engine.slots(blocks[:3])
    assert prefix.tokens.tolist() == TOKENS[: 3 * PAGE_SIZE]
    assert prefix.start_position == 0
    assert list(engine.cached.current()) == [name]


def test_blocks_that_are_known_already_are_swept_once(engine: Engine) -> None:
    engine.run("a", TOKENS)
    engine.leave("a", TOKENS)
    other = [*TOKENS[: 2 * PAGE_SIZE], *range(200, 217)]
    blocks = engine.run("b", other)
    engine.leave("b", other)
    engine.run("c", TOKENS)
    engine.leave("c", TOKENS)
    first, second = engine.cached.current().values()
    assert len(first.slots) == 3 * PAGE_SIZE
    # From the last block of both on, so that the link to it is verified.
    assert second.slots.tolist() == engine.slots(blocks[1:4])
    assert second.start_position == PAGE_SIZE
    assert second.tokens.tolist() == other[PAGE_SIZE : 4 * PAGE_SIZE]


def test_evicted_blocks_are_given_up_and_their_next_content_is_another_prefix(
    engine: Engine,
) -> None:
    blocks = engine.run("a", TOKENS)
    shared = engine.run("b", TOKENS[: PAGE_SIZE + 1])
    assert shared[0] == blocks[0]
    engine.leave("a", TOKENS)
    engine.cache.evict_cached_blocks()
    # The first block is still held by a running request.
    (prefix,) = engine.cached.current().values()
    assert prefix.slots.tolist() == engine.slots(blocks[:1])
    engine.leave("b", TOKENS[: PAGE_SIZE + 1])
    engine.cache.evict_cached_blocks()
    assert engine.cached.current() == {}
    other = list(range(300, 300 + 16 * PAGE_SIZE))
    assert set(engine.run("c", other)) >= set(blocks)
    assert engine.cached.current() == {}


def test_a_request_that_is_evicted_caches_nothing(engine: Engine) -> None:
    engine.run("a", TOKENS)
    engine.leave("a", TOKENS, no_cache=True)
    assert engine.cached.current() == {}


def test_a_request_without_blocks_caches_nothing(engine: Engine) -> None:
    engine.leave("waiting", TOKENS)
    engine.run("short", [1, 2, 3])
    engine.leave("short", [1, 2, 3])
    assert engine.cached.current() == {}
