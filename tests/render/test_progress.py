from __future__ import annotations

import io

import pytest

from kvaudit.render.progress import COMPILING, COMPILING_EACH_TIME, ProgressDisplay


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


def test_an_advance_before_any_stage_is_ignored() -> None:
    with ProgressDisplay(io.StringIO()) as display:
        display.advance(1)
