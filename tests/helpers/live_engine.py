"""An engine on torch tensors with a canary beside it: requests that grow by a token a step."""

from __future__ import annotations

from typing import Any

import torch

from kvaudit.backends.launch import RealKvSource
from kvaudit.constants import RECORD_POSITION, RECORD_TOKEN
from kvaudit.core.launch_tag import KvHalf, PoolKind
from kvaudit.runner.live import (
    CachedPrefix,
    CanaryBatch,
    CanaryConfig,
    CanaryDeviceState,
    CanaryManager,
    CanaryPool,
    PoolGeometry,
)

PROMPT_LEN = 3
SLOT_BYTES = 32
PAGE_SIZE = 2


class LiveEngine:
    """Requests 1, 2, .. in slots of their own, one after another; every KV byte is its slot's.

    Args:
        config: the canary's.
        num_requests: requests of every batch.
        max_len: positions that a request has slots for.
        halves: what is stamped.
        window: None, or the window of a second pool, into which slots map one to one.
        device: where all of it is.
        verify_capacity: entries of a verify plan; None = enough.
        manager: further arguments of the manager.
    """

    def __init__(
        self,
        config: CanaryConfig,
        *,
        num_requests: int = 2,
        max_len: int = 16,
        halves: tuple[KvHalf, ...] = (KvHalf.K,),
        window: int | None = None,
        device: str = "cpu",
        verify_capacity: int | None = None,
        **manager: Any,
    ) -> None:
        self.num_requests, self.max_len, self.device = num_requests, max_len, device
        self.num_slots = PAGE_SIZE + num_requests * max_len
        self.kv = torch.arange(self.num_slots * SLOT_BYTES, device=device).remainder(251)
        self.kv = self.kv.to(torch.uint8).view(-1, PAGE_SIZE * SLOT_BYTES)
        self.state = CanaryDeviceState.allocate(ring_capacity=config.ring_capacity, device=device)
        source = RealKvSource(
            tensor=self.kv,
            page_size=PAGE_SIZE,
            num_bytes_per_token=SLOT_BYTES,
            read_bytes=SLOT_BYTES,
        )
        kinds = {PoolKind.FULL: 0} if window is None else {PoolKind.FULL: 0, PoolKind.SWA: window}
        self.pools = {
            kind: CanaryPool.allocate(
                PoolGeometry(
                    pool_kind=kind,
                    num_slots=self.num_slots,
                    page_size=PAGE_SIZE,
                    verify_capacity=verify_capacity or num_requests * max_len,
                    write_req_capacity=num_requests + 1,
                    swa_window_size=window_size,
                ),
                sources={half: [source] for half in halves},
                state=self.state,
                config=config,
            )
            for kind, window_size in kinds.items()
        }
        rows = torch.arange(num_requests * max_len, dtype=torch.int32, device=device)
        padding = torch.zeros((1, max_len), dtype=torch.int32, device=device)
        self.req_to_token = torch.cat([padding, rows.view(-1, max_len) + PAGE_SIZE])
        self.tokens = self.req_to_token + 1000
        self.full_to_swa = torch.arange(self.num_slots, device=device)
        self.length = 0
        self.manager = CanaryManager(
            config, state=self.state, pools=list(self.pools.values()), **manager
        )

    @property
    def pool(self) -> CanaryPool:
        """The full pool."""
        return self.pools[PoolKind.FULL]

    def slot(self, request: int, position: int) -> int:
        """Where a request's position is."""
        return int(self.req_to_token[request, position])

    def batch(self, **changes: Any) -> CanaryBatch:
        """The next step of all requests: their prompts, then a token each."""
        count = PROMPT_LEN if self.length == 0 else 1
        requests = torch.arange(1, self.num_requests + 1, device=self.device)
        first = torch.full_like(requests, self.length)
        written = slice(self.length, self.length + count)
        slots = self.req_to_token[1:, written].long().reshape(-1)
        fields: dict[str, Any] = {
            "req_pool_indices": requests,
            "prefix_lens": first,
            "extend_seq_lens": torch.full_like(requests, count),
            "req_to_token": self.req_to_token,
            "input_ids": self.tokens[1:, written].long().reshape(-1),
            "positions": torch.arange(written.start, written.stop, device=self.device).repeat(
                self.num_requests
            ),
            "out_cache_loc": slots,
            "swa_out_cache_loc": slots,
            "full_to_swa_index_mapping": self.full_to_swa,
        }
        self.length += count
        return CanaryBatch(**{**fields, **changes})

    def step(self, **changes: Any) -> None:
        """One step; a request that is full starts anew."""
        if self.length == self.max_len:
            self.length = 0
        self.manager.begin_step(self.batch(**changes))
        self.manager.end_step()

    def run(self, num_steps: int) -> None:
        """So many steps."""
        for _ in range(num_steps):
            self.step()

    def overwrite(self, request: int, position: int, *, buffer: str = "k.tail") -> int:
        """Another record in the place of one; the slot that now holds it."""
        slot = self.slot(request, position)
        record = self.pool.buffers[buffer].view(torch.int64)[slot]
        before = record.clone()
        record[RECORD_TOKEN] += 1
        record[RECORD_POSITION] += 1
        assert not torch.equal(record, before)
        return slot

    def cached_prefixes(self, kind: PoolKind) -> dict[str, CachedPrefix]:
        """Each request's positions so far, as an engine keeps prefixes."""
        del kind
        return {
            f"prefix-{request}": CachedPrefix(
                slots=self.req_to_token[request, : self.length].long()
            )
            for request in range(1, self.num_requests + 1)
        }
