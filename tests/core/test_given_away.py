"""What was saved of slots that were given away, beside the pool that they are of."""

from __future__ import annotations

from dataclasses import replace

from kvaudit.core.dataset import AuditedPool
from kvaudit.core.given_away import given_away_from, given_away_key
from kvaudit.core.snapshot import PoolKey
from tests.helpers.worlds import build


def _pool(key: PoolKey) -> AuditedPool:
    return AuditedPool(snapshot=build(key=key).done().snapshot(key=key))


def test_what_was_saved_of_a_pool_is_named_after_it_and_numbered() -> None:
    key = PoolKey(instance="decode-0", pool="FULL", step=7)
    assert given_away_key(key, 3) == replace(key, pool="FULL.finished-000003")


def test_a_pool_finds_what_was_saved_of_it_at_any_step_the_latest_first() -> None:
    key = PoolKey(instance="decode-0", rank=0, step=9)
    saved = [
        _pool(given_away_key(replace(key, step=step), number))
        for number, step in ((1, 4), (2, 6), (10, 8))
    ]
    others = [
        _pool(given_away_key(replace(key, rank=1), 4)),
        _pool(given_away_key(replace(key, pool="SWA"), 5)),
        _pool(replace(key, pool="FULL.of another")),
        _pool(key),
    ]
    found = given_away_from(key, [*others, *saved])
    assert [pool.snapshot.key.step for pool in found] == [8, 6, 4]
