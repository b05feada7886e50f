from __future__ import annotations

import io
import re

import pytest

from kvaudit.render.progress import (
    COMPILING,
    COMPILING_EACH_TIME,
    ProgressDisplay,
    rate_label,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("is_kept", "announcement"), [(True, COMPILING), (False, COMPILING_EACH_TIME)]
)
def test_a_compilation_is_announced_once(is_kept: bool, announcement: str) -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        display.compiling(is_kept=is_kept)
        display.compiling(is_kept=is_kept)
    assert stream.getvalue() == f"kvaudit: {announcement}\n"


@pytest.mark.parametrize("force", ["", "1"])
def test_nothing_else_is_written_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, force: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", force)
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        display.stage("bytes", 100)
        display.advance(50)
        display.stage("records", 0)
        display.advance(1)
    assert stream.getvalue() == ""


def test_a_terminal_sees_the_stage_and_then_nothing_of_it(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with ProgressDisplay(stream) as display:
        display.stage("bytes", 4)
        display.advance(2)
    assert "bytes" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_a_terminal_sees_how_fast_it_is_and_how_long_it_takes(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with ProgressDisplay(stream) as display:
        display.stage("replay", 4000)
        for _ in range(4):
            display.advance(500)
    assert re.search(r"50%.*/s.*\d:\d\d:\d\d.*\d:\d\d:\d\d", stream.getvalue())


def test_a_stage_that_takes_long_says_so_where_there_is_no_terminal() -> None:
    seconds = iter([0.0, 0.0, 4.0, 10.0, 12.0, 20.0, 21.0, 31.0])
    stream = io.StringIO()
    with ProgressDisplay(stream, now=lambda: next(seconds)) as display:
        display.stage("replay", 10_000)
        display.advance(400)
        display.advance(600)
        display.advance(100)
        display.advance(900)
        display.stage("bytes", 0)
        display.advance(3_000_000)
    assert stream.getvalue().splitlines() == [
        "kvaudit: replay: 1,000 of 10,000, 100/s, 90 s left",
        "kvaudit: replay: 2,000 of 10,000, 100/s, 80 s left",
        "kvaudit: bytes: 3,000,000, 300.0 k/s",
    ]


@pytest.mark.parametrize(
    ("rate", "label"), [(0.4, "0/s"), (950, "950/s"), (1234, "1.2 k/s"), (4.65e12, "4650.0 G/s")]
)
def test_a_rate_has_few_digits(rate: float, label: str) -> None:
    assert rate_label(rate) == label


def test_an_advance_before_any_stage_is_ignored() -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        display.advance(1)
    assert not stream.getvalue()
