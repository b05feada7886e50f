"""Prefixes that transformers' continuous batching caches (transformers 5.24).

The engine keeps complete blocks of requests that are done, by the hash of their tokens and of all
before them, and forgets a hash with its block. It does not know a block's position; a request that
gives its blocks up does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TYPE_CHECKING

from kvaudit.capture.transformers_cache import block_slots

if TYPE_CHECKING:
    import torch
    from transformers.generation.continuous_batching.cache_allocators import CacheAllocator

    from kvaudit.runner.live import CachedPrefix


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Chain:
    """Consecutive blocks of a prefix.

    Fields:
        blocks: each with its hash.
        start_position: of the first block's first slot.
        slots: shape [num_blocks * page_size], int64, on the engine's device.
        tokens: their tokens, shape [num_blocks * page_size], int64, on the engine's device.
    """

    blocks: Sequence[tuple[int, int]]
    start_position: int
    slots: torch.Tensor
    tokens: torch.Tensor


class CachedBlocks:
    """The cached prefixes of one group of layers; each block is in one of them, but where they fork.

    Args:
        allocator: the group's.
    """

    def __init__(self, allocator: CacheAllocator) -> None:
        self._allocator = allocator
        self._chains: dict[str, _Chain] = {}
        self._names = (f"cached-{number}" for number in count(1))

    def keep(self, request_id: str, tokens: Sequence[int]) -> None:
        """A request is about to give up its blocks: those with a hash may stay.

        Args:
            request_id: the request.
            tokens: its tokens from position 0 on.
        """
        hashes = self._allocator.ledger.block_to_hash
        table = self._allocator.block_table.get(request_id, ())
        blocks = [(block, hashes[block]) for block in takewhile(hashes.__contains__, table)]
        known = {block for chain in self._chains.values() for block in chain.blocks}
        num_known = sum(1 for _ in takewhile(known.__contains__, blocks))
        if num_known == len(blocks):
            return
        # From the last block that is known, so that the link to it is verified too.
        first = max(num_known - 1, 0)
        self._chains[next(self._names)] = self._chain(blocks[first:], first=first, tokens=tokens)

    def current(self) -> Mapping[str, CachedPrefix]:
        """What is cached now, by a name that stays the same while a prefix lives."""
        from kvaudit.runner.live import CachedPrefix

        hashes = self._allocator.ledger.block_to_hash
        page_size = self._allocator.tokens_per_page
        current = {}
        for name, chain in list(self._chains.items()):
            num_kept = sum(
                1 for _ in takewhile(lambda part: hashes.get(part[0]) == part[1], chain.blocks)
            )
            if not num_kept:
                del self._chains[name]
                continue
            kept = slice(num_kept * page_size)
            current[name] = CachedPrefix(
                slots=chain.slots[kept],
                start_position=chain.start_position,
                tokens=chain.tokens[kept],
            )
        return current

    def _chain(
        self, blocks: Sequence[tuple[int, int]], *, first: int, tokens: Sequence[int]
    ) -> _Chain:
        import torch

        page_size = self._allocator.tokens_per_page
        start = first * page_size
        device = self._allocator.cache_tensor.device
        slots = block_slots(self._allocator, [block for block, _ in blocks])
        covered = list(tokens[start : start + len(slots)])
        return _Chain(
            blocks=blocks,
            start_position=start,
            slots=torch.from_numpy(slots).to(device),
            tokens=torch.tensor(covered, dtype=torch.int64, device=device),
        )
