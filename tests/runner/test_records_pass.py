"""Blocks, tags and counters of the records family."""

from __future__ import annotations

import pytest

from kvaudit.backends.availability import choose
from kvaudit.backends.cpu import CpuBackend
from kvaudit.constants import RealKvHashMode
from kvaudit.core import planner
from kvaudit.core.audit_options import AuditOptions
from kvaudit.core.observer import SilentObserver
from kvaudit.runner.audit import audit
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


@pytest.mark.parametrize("max_callers", [2, 5])
def test_blocks_at_once_give_the_rows_of_one_after_another(monkeypatch, max_callers: int) -> None:
    world = fixture_f(
        mode=RealKvHashMode.ALL,
        stamped_columns=("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1"),
        canary=("k.head", "k.tail", "v.tail"),
        stamps=("kv.k.0", "kv.v.1"),
    )
    corruptions.swap_pages(world, 1, 3)
    corruptions.flip_bit(world, "kv.v.1", 7)
    monkeypatch.setattr(planner, "MAX_BLOCK_ENTRIES", 1)
    reports = []
    for callers in (1, max_callers):
        backend = CpuBackend()
        backend.max_callers = callers
        _, choice = choose("cpu", kv_bytes=0, num_entries=0)
        report = audit(
            world.dataset(),
            backend=backend,
            choice=choice,
            options=AuditOptions(max_violations=5),
            observer=SilentObserver(),
        )
        assert report.violations_total > len(report.violations) == 5
        reports.append(report.to_dict() | {"timing": None})
    assert reports[0] == reports[1]


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
