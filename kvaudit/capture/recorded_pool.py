"""A pool as an engine describes it to a recorder."""

from __future__ import annotations

from dataclasses import dataclass

from kvaudit.capture.layouts import KvTensors
from kvaudit.core.launch_tag import PoolKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedPool:
    """A pool that a recorder follows.

    Fields:
        name: the pool's name; rows name their slots by it when there are several pools.
        kv: its tensors, as in `dump`.
        layout: the order of the tensors' dimensions, as in `dump`.
        page_size: slots a page.
        reserved_slots: slots that never hold a token: "0", "0-15", "none".
        pool_kind: FULL, or SWA for a pool of a sliding window.
        window: the sliding window in tokens; None for all positions.
        group: `target`, `draft` or the engine's cache group; None when there is one.
    """

    name: str = PoolKind.FULL
    kv: KvTensors
    layout: str
    page_size: int
    reserved_slots: str = "0"
    pool_kind: PoolKind = PoolKind.FULL
    window: int | None = None
    group: str | None = None
