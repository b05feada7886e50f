"""A run may be watched, or not."""

from __future__ import annotations

from kvaudit.constants import RealKvHashMode
from kvaudit.core.observer import RunObserver, SilentObserver
from tests.helpers.watcher import Watcher
from tests.helpers.worlds import fixture_f


def test_a_silent_observer_takes_every_call() -> None:
    observer: RunObserver = SilentObserver()
    observer.compiling(is_kept=True)
    observer.stage("bytes", 10)
    observer.advance(10)


def test_an_audit_tells_each_stage_and_finishes_it() -> None:
    from kvaudit import api

    world = fixture_f(mode=RealKvHashMode.ALL, stamps=("kv.v.0",), canary=("k.head", "k.tail"))
    watcher = Watcher()
    api.audit(world.dataset(), backend="reference", observer=watcher)
    assert watcher.stages == {"bytes": (256, 256), "records": (16, 16)}
