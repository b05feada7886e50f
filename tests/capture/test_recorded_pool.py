"""A pool as an engine describes it."""

from __future__ import annotations

import torch

from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.core.launch_tag import PoolKind


def test_a_pool_is_of_all_positions_and_named_so_unless_it_says_otherwise() -> None:
    kv = [(torch.zeros(4, 2), torch.zeros(4, 2))]
    pool = RecordedPool(kv=kv, layout="slot dim", page_size=2)
    assert (pool.name, pool.pool_kind, pool.window) == ("FULL", PoolKind.FULL, None)
    assert pool.reserved_slots == "0"
