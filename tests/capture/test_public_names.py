"""What `kvaudit.capture` offers, and that naming it costs nothing before it is used."""

from __future__ import annotations

import types

import pytest

import kvaudit.capture
from kvaudit.capture import ForwardRow, RecordedPool, Recorder, dump
from kvaudit.capture.recorder import Recorder as RecorderItself


def test_the_function_is_not_hidden_by_the_module_of_its_name() -> None:
    import kvaudit.capture.dump

    assert isinstance(dump, types.FunctionType)
    assert kvaudit.capture.dump is dump


def test_the_recorder_is_found_by_its_short_name() -> None:
    assert Recorder is RecorderItself
    assert {ForwardRow.__name__, RecordedPool.__name__} <= set(kvaudit.capture.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'recorderr'"):
        _ = kvaudit.capture.recorderr
