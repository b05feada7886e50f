"""A live canary where the engines of the tests have a recorder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kvaudit.capture import RecordedPool
from kvaudit.capture.live_canary import LiveCanary
from kvaudit.constants import RECORD_POSITION, RECORD_TOKEN, RECORD_WORDS
from kvaudit.core.canary_state import CanaryState

MAX_REQUESTS = 8


class BesideEngine(LiveCanary):
    """A live canary of one pool; tables and tokens come with each forward, not between them."""

    def attach(self, pools: Sequence[RecordedPool], **given: Any) -> None:
        super().attach(pools, **{"max_requests": MAX_REQUESTS, **given})

    def update(self, request_id: str, **_: object) -> None:
        """What only a recorder wants to know."""

    @property
    def live_requests(self) -> frozenset[str]:
        (pool,) = self.pools.values()
        return pool.live_requests

    @property
    def state(self) -> CanaryState:
        (state,) = self.read_states().values()
        return state

    def overwrite(self, slot: int, *, buffer: str = "k.tail") -> None:
        """The record of another token and position in the place of a slot's."""
        (pool,) = self.pools.values()
        record = pool.records[buffer].view(torch.int64)[slot, :RECORD_WORDS]
        assert record.any(), slot
        record[[RECORD_TOKEN, RECORD_POSITION]] += 1
