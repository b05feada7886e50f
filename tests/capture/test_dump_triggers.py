"""Dumps that are asked for from outside."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from kvaudit.capture.dump_triggers import RaisedSignal, TouchedFile


def test_a_file_triggers_once_each_time_it_is_made_or_touched(tmp_path: Path) -> None:
    path = tmp_path / "dump-now"
    trigger = TouchedFile(path)
    assert not trigger()
    path.touch()
    assert (trigger(), trigger()) == (True, False)
    os.utime(path, ns=(1, 1))
    assert (trigger(), trigger()) == (True, False)
    path.unlink()
    assert not trigger()
    path.touch()
    assert trigger()


def test_a_file_that_was_there_before_does_not_trigger(tmp_path: Path) -> None:
    path = tmp_path / "dump-now"
    path.touch()
    assert not TouchedFile(path)()


def test_a_signal_triggers_once_and_its_handler_of_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with RaisedSignal(signal.SIGUSR1) as trigger:
        assert not trigger()
        signal.raise_signal(signal.SIGUSR1)
        assert (trigger(), trigger()) == (True, False)
    assert signal.getsignal(signal.SIGUSR1) is before
