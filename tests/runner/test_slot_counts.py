"""A slot counts as checked where a check read it, and nowhere else."""

from __future__ import annotations

import numpy as np

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.plan import PlanDump
from kvaudit.core.report import Report
from kvaudit.core.snapshot import DumpMoment
from tests.helpers.worlds import World, fixture_f

ALL = RealKvHashMode.ALL
K, V = LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL


def _two_plans(world: World, *tags: LaunchTag) -> Dataset:
    """A plan of A alone for the first tag, and one of B alone for the second."""
    launches = []
    every = list(world.requests)
    for request, tag in zip(every, tags, strict=True):
        world.requests[:] = [request]
        launches.append(world.plan(tags=(tag,)).launches[0])
    world.requests[:] = every
    pool = AuditedPool(snapshot=world.snapshot(), plans=(PlanDump(launches=launches),))
    return Dataset(pools=[pool])


def _slots(report: Report) -> tuple[int, int]:
    return report.coverage.slots_planned, report.coverage.slots_checked


def test_slots_of_a_launch_without_records_are_not_checked(run) -> None:
    world = fixture_f(canary=("k.tail", "v.tail"))
    world.records["v.tail"][:] = 0
    assert _slots(run(_two_plans(world, K, V))) == (8, 4)
    assert _slots(run(_two_plans(world, K, K))) == (8, 8)


def test_a_stamped_column_checks_slots_that_no_record_does(run) -> None:
    world = fixture_f(canary=("k.tail", "v.tail"), stamps=("kv.k.0",))
    world.records["v.tail"][:] = 0
    assert _slots(run(_two_plans(world, K, V))) == (8, 8)
    assert _slots(run(_two_plans(world, K, V), skip_bytes=True)) == (8, 4)


def test_slots_that_were_never_stamped_are_not_checked(run) -> None:
    world = fixture_f(mode=ALL, stamps=("kv.k.0",))
    world.evidence["stamped_step"] = _never(world, [3, 4])
    assert _slots(run(world.dataset())) == (8, 6)


def test_bytes_of_mid_step_check_nothing(run) -> None:
    world = fixture_f(canary=(), stamps=("kv.k.0",))
    assert _slots(run(world.dataset())) == (8, 8)
    snapshot = world.snapshot(at=DumpMoment.MID_STEP)
    assert _slots(run(world.dataset(snapshot=snapshot))) == (8, 0)


def _never(world: World, slots: list[int]) -> np.ndarray:
    steps = np.full(world.num_slots, 7, dtype=np.int64)
    steps[slots] = -1
    return steps
