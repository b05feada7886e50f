"""What a recorder refuses: rows that contradict themselves, and names that no file can hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvaudit.capture import ForwardRow, Recorder
from kvaudit.errors import ConfigError
from tests.helpers.toy_engine import ToyEngine

GOOD_ROW = {"positions": range(2), "tokens": [1, 2], "slots": [4, 5]}


@pytest.fixture
def engine() -> ToyEngine:
    return ToyEngine(Recorder())


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"positions": range(3), "tokens": [1, 2], "slots": [4, 5, 6]}, "a"),
        ({"positions": range(0, 4, 2), "tokens": [1, 2], "slots": [4, 5]}, "a"),
        ({"positions": range(2), "tokens": [1, 2], "slots": [4, 96]}, "a"),
        ({"positions": range(2), "tokens": [1, 2], "slots": [-1, 4]}, "a"),
        ({"positions": range(2), "tokens": [1, 2], "slots": [4.7, 5]}, "slots"),
        ({"positions": range(2), "tokens": [1, 2.5], "slots": [4, 5]}, "a: tokens"),
        ({"positions": range(2), "tokens": [1, -2], "slots": [4, 5]}, "a: tokens"),
        ({**GOOD_ROW, "known_tokens": ["x", "y"]}, "a: known_tokens"),
        ({**GOOD_ROW, "prompt_len": -2}, "prompt_len"),
        ({**GOOD_ROW, "request_id": 5}, "request_id"),
        ({**GOOD_ROW, "request_id": "\ud800"}, "request_id"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(engine: ToyEngine, row: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: ") as refused:
        engine.recorder.before_forward([ForwardRow(**{"request_id": "a", **row})])
    assert refused.value.hint


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rank": -1}, "rank"),
        ({"instance": "\ud800"}, "instance"),
        ({"metadata": {"step": "3"}}, "metadata"),
        ({"content": "nothing"}, "content"),
    ],
)
def test_a_recorder_of_what_no_file_can_hold_is_refused(arguments: dict, named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{named}: ") as refused:
        Recorder(**arguments)
    assert refused.value.hint


def test_slots_are_never_rounded(engine: ToyEngine) -> None:
    with pytest.raises(ConfigError, match=r"^slots: "):
        engine.recorder.copy_slots([4.7], [5])
    with pytest.raises(ConfigError, match=r"^slots: "):
        engine.recorder.update("a", slots=[4.7])


def test_a_copy_needs_a_target_for_each_source(engine: ToyEngine) -> None:
    with pytest.raises(ConfigError, match=r"^copy_slots: "):
        engine.recorder.copy_slots([4, 5], [6])


def test_one_table_for_several_pools_is_refused(engine: ToyEngine) -> None:
    recorder = Recorder()
    recorder.attach([replace(engine.pool(), name=name) for name in ("full", "other")])
    row = ForwardRow(request_id="a", positions=range(1), tokens=[1], slots=[4])
    with pytest.raises(ConfigError, match=r"^slots: "):
        recorder.before_forward([row])


def test_pools_need_names_of_their_own(engine: ToyEngine) -> None:
    with pytest.raises(ConfigError, match=r"^pools: "):
        Recorder().attach([engine.pool(), engine.pool()])
    with pytest.raises(ConfigError, match=r"^pools: "):
        Recorder().attach([])


def test_pools_need_file_names_of_their_own(engine: ToyEngine) -> None:
    pools = [replace(engine.pool(), name=name) for name in ("a/b", "A_b")]
    with pytest.raises(ConfigError, match=r"^pools: "):
        Recorder().attach(pools)
