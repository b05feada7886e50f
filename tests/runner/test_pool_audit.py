"""What one pool's audit hands to the rules."""

from __future__ import annotations

import numpy as np

from kvaudit.core.dataset import Dataset
from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.snapshot import PoolKey
from tests.helpers.worlds import World, fixture_f

FULL = PoolKey(instance="decode-0", rank=0)
SWA = PoolKey(instance="decode-0", rank=0, pool="SWA", pool_kind=PoolKind.SWA)


def _with_map() -> World:
    world = fixture_f(key=FULL)
    world.evidence["swa_slot"] = np.arange(16)
    world.evidence["swa_slot"][5] = 0
    return world


def test_the_window_of_a_map_may_come_from_the_window_pool(run) -> None:
    world = _with_map()
    full = world.dataset().pools[0]
    swa = fixture_f(key=SWA)
    window_pool = swa.dataset(snapshot=swa.snapshot(window=2)).pools[0]
    assert run(Dataset(pools=[full])).findings == []
    (finding,) = run(Dataset(pools=[full, window_pool])).findings
    assert (finding.rule, finding.slots, finding.key.pool) == ("KV105", [5], "FULL")


def test_a_full_pool_with_a_map_keeps_all_its_positions(run) -> None:
    world = _with_map()
    report = run(world.dataset(snapshot=world.snapshot(window=1)))
    assert report.to_dict()["coverage"]["records"]["planned"] == 8
    assert [finding.rule for finding in report.findings] == ["KV105"]
