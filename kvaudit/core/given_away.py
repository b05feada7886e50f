"""What finished sequences had on slots that were given away since, as pools of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvaudit.core.dataset import AuditedPool
from kvaudit.core.snapshot import PoolKey

_INFIX: Final = ".finished-"


def given_away_key(key: PoolKey, number: int) -> PoolKey:
    """The key of the number-th such pool of a pool: `FULL.finished-000001`."""
    return replace(key, pool=f"{key.pool}{_INFIX}{number:06d}")


def given_away_from(pool: PoolKey, pools: Sequence[AuditedPool]) -> list[AuditedPool]:
    """What was saved of a pool's slots before it was dumped, the latest first."""
    saved = [
        other
        for other in pools
        if replace(other.snapshot.key, pool=pool.pool, step=pool.step) == pool
        and other.snapshot.key.pool.startswith(f"{pool.pool}{_INFIX}")
    ]
    return sorted(saved, key=lambda other: other.snapshot.key.pool, reverse=True)
