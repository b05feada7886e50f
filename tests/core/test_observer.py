"""A run may be watched, or not."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from kvaudit import api
from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.observer import RunObserver, SilentObserver
from kvaudit.core.plan import PlanDump
from kvaudit.render.progress import ProgressDisplay
from tests.helpers.watcher import Watcher
from tests.helpers.worlds import World, fixture_f

EVERY = ("kv.k.0", "kv.k.1", "kv.v.0", "kv.v.1")


CALLS = ("stage", "advance", "compiling")


def test_these_are_all_the_calls() -> None:
    assert {name for name in vars(RunObserver) if not name.startswith("_")} == set(CALLS)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("observer", [SilentObserver, Watcher, ProgressDisplay])
def test_every_observer_takes_every_call(observer: type, call: str) -> None:
    wanted, found = (inspect.signature(getattr(kind, call)) for kind in (RunObserver, observer))
    assert [(one.name, one.kind) for one in found.parameters.values()] == [
        (one.name, one.kind) for one in wanted.parameters.values()
    ]


def test_an_audit_says_the_same_whether_it_is_watched_or_not() -> None:
    reports = [
        api.audit(fixture_f().dataset(), backend="reference", observer=observer).to_dict()
        for observer in (SilentObserver(), Watcher())
    ]
    for report in reports:
        del report["timing"]
    assert reports[0] == reports[1]


def test_an_audit_tells_each_stage_with_its_amount() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamps=("kv.v.0",), canary=("k.head", "k.tail"))
    watcher = Watcher()
    api.audit(world.dataset(), backend="reference", observer=watcher)
    assert watcher.stages == {"bytes": (256, 256), "records": (16, 16)}


def _planned(world: World) -> Dataset:
    """One pool with two launches that share no tag."""
    launches = [
        launch
        for tags in ((LaunchTag.HEAD_K_FULL,), (LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL))
        for launch in world.plan(tags=tags, step=3).launches
    ]
    plan = PlanDump(key=world.key, launches=launches)
    return Dataset(pools=[AuditedPool(snapshot=world.snapshot(), plans=(plan,))])


@pytest.mark.parametrize("mode", RealKvHashMode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("given", [World.dataset, _planned], ids=["sequences", "plan"])
@pytest.mark.parametrize("stamps", [(), EVERY], ids=["combined", "stamps"])
def test_every_stage_is_finished_in_every_mode_for_any_tags(
    mode: RealKvHashMode, given: Callable[[World], Dataset], stamps: tuple[str, ...]
) -> None:
    world = fixture_f(
        mode=mode, stamped_columns=EVERY, stamps=stamps, canary=("k.head", "k.tail", "v.tail")
    )
    watcher = Watcher()
    api.audit(given(world), backend="reference", observer=watcher)
    assert watcher.stages["records"] == (24, 24)
    for total, done in watcher.stages.values():
        assert done == total


def test_entries_that_no_launch_judges_are_passed_over_and_finish_the_stage() -> None:
    """A column that was never stamped, and a launch that its plan switched off."""
    world = fixture_f(canary=("k.tail", "v.tail"))
    world.records["v.tail"][:] = 0
    launches = [
        launch for enable in (True, False) for launch in world.plan(step=3, enable=enable).launches
    ]
    plan = PlanDump(key=world.key, launches=launches)
    watcher = Watcher()
    pool = AuditedPool(snapshot=world.snapshot(), plans=(plan,))
    api.audit(Dataset(pools=[pool]), backend="reference", observer=watcher)
    total, done = watcher.stages["records"]
    assert done == total > 0
