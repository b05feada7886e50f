from __future__ import annotations

from kvaudit.core.observer import RunObserver, SilentObserver


def test_the_silent_observer_takes_every_call() -> None:
    observer: RunObserver = SilentObserver()
    observer.stage("bytes", 4)
    observer.advance(2)
    observer.compiling()
