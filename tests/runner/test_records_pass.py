"""Blocks, tags and counters of the records family."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core import planner
from tests.helpers import corruptions
from tests.helpers.worlds import fixture_f


@pytest.mark.parametrize("size", [1, 3, 5, 8])
def test_the_size_of_a_block_changes_nothing(run, monkeypatch, size: int) -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, canary=("k.head", "k.tail"))
    corruptions.swap_pages(world, 1, 3)
    whole = run(world.dataset()).to_dict()
    monkeypatch.setattr(planner, "MAX_BLOCK_ENTRIES", size)
    blocks = run(world.dataset()).to_dict()
    for key in ("violations", "tags", "coverage", "findings"):
        assert blocks[key] == whole[key]


def test_counters_say_what_ran(run) -> None:
    world = fixture_f()
    world.request_of("A").slots[0] = 0
    (counters,) = run(world.dataset(), select=("KV0",)).tags
    assert (counters.tag, counters.kernel_runs) == ("TAIL_K_FULL", 1)
    assert (counters.slots_run, counters.checked, counters.violations) == (8, 7, 0)


def test_each_launch_of_a_plan_keeps_its_own_token_check(run) -> None:
    from kvaudit.core.dataset import AuditedPool, Dataset
    from kvaudit.core.plan import PlanDump

    world = fixture_f()
    corruptions.wrong_token(world, "B", position=1, token=99)
    launches = [world.plan(check_tokens=check).launches[0] for check in (False, True)]
    pool = AuditedPool(snapshot=world.snapshot(), plans=(PlanDump(launches=launches),))
    report = run(Dataset(pools=[pool]))
    assert report.violations_total == 1
    assert report.tags[0].kernel_runs == 2
