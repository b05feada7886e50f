"""Where transformers' continuous batching keeps the KV of a request (transformers 5.24).

Each group of layers (full or sliding attention) has block tables and slots of its own: slot =
block * page_size + offset. One flat buffer holds [block, layer, K or V, page_size, heads, dim] of
every group, and its first two sectors are trash that padding reads and writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.core.launch_tag import PoolKind

if TYPE_CHECKING:
    from transformers.generation.continuous_batching.cache import PagedAttentionCache
    from transformers.generation.continuous_batching.cache_allocators import CacheAllocator

_POOL_KINDS: Final = {
    "full_attention": PoolKind.FULL,
    "sliding_attention": PoolKind.SWA,
}
_TRASH_SECTORS: Final = 2


def pool_kind_of(allocator: CacheAllocator) -> PoolKind:
    """The kind of a group's pool, which is also the pool's name."""
    return _POOL_KINDS[allocator.layer_type]


def recorded_pools(cache: PagedAttentionCache) -> list[RecordedPool]:
    """A pool for each group of layers."""
    return [_pool(allocator) for allocator in cache.cache_allocators.values()]


def _pool(allocator: CacheAllocator) -> RecordedPool:
    """The strided views of each layer's K and V in the flat buffer that all groups share."""
    layers = allocator.layer_indices
    heads, dim = allocator.cache_tensor.shape[-2:]
    page_size = allocator.tokens_per_page
    block_elements = len(layers) * 2 * page_size * heads * dim
    flat = allocator.cache_tensor.reshape(-1)
    num_blocks = flat.numel() // block_elements
    blocks = flat[: num_blocks * block_elements].view(
        num_blocks, len(layers), 2, page_size, heads, dim
    )
    trash_slots = _TRASH_SECTORS * allocator.blocks_per_sector * page_size
    pool_kind = pool_kind_of(allocator)
    return RecordedPool(
        name=pool_kind,
        kv={layer: blocks[:, layer_idx] for layer_idx, layer in enumerate(layers)},
        layout="page kv slot head dim",
        page_size=page_size,
        reserved_slots=f"0-{trash_slots - 1}",
        pool_kind=pool_kind,
        window=getattr(allocator, "sliding_window", None),
    )


def request_slots(allocator: CacheAllocator, request_id: str, kv_len: int) -> NDArray[np.int64]:
    """Slot of each position that the request can still read, up to kv_len.

    Shape [n], int64. A sliding group is a ring: position p is at p modulo the window.
    """
    window = getattr(allocator, "sliding_window", None)
    positions = np.arange(max(0, kv_len - window) if window else 0, kv_len, dtype=np.int64)
    ring = positions % window if window else positions
    blocks = np.array(allocator.block_table[request_id], dtype=np.int64)
    page_size = allocator.tokens_per_page
    slots: NDArray[np.int64] = blocks[ring // page_size] * page_size + ring % page_size
    return slots


def block_slots(allocator: CacheAllocator, block_ids: list[int]) -> NDArray[np.int64]:
    """Every slot of the blocks, block by block, shape [n * page_size], int64."""
    page_size = allocator.tokens_per_page
    first_slots = np.array(block_ids, dtype=np.int64)[:, None] * page_size
    slots: NDArray[np.int64] = first_slots + np.arange(page_size, dtype=np.int64)
    return slots.reshape(-1)
