from __future__ import annotations

import io
import json
import sys

import pytest

from kvaudit.cli.options import ColorMode, OutputFormat
from kvaudit.cli.screen import is_styled, progress, width_of, write_facts
from kvaudit.core.observer import SilentObserver
from kvaudit.render.progress import ProgressDisplay


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colour_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_colour_is_for_terminals() -> None:
    assert is_styled(ColorMode.AUTO, Terminal())
    assert not is_styled(ColorMode.AUTO, io.StringIO())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_can_be_kept_plain(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert not is_styled(ColorMode.AUTO, Terminal())
    assert is_styled(ColorMode.ALWAYS, Terminal())


def test_an_explicit_colour_mode_decides() -> None:
    assert is_styled(ColorMode.ALWAYS, io.StringIO())
    assert not is_styled(ColorMode.NEVER, Terminal())


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert width_of(Terminal()) == 72
    assert width_of(io.StringIO()) is None


def test_quiet_means_no_progress() -> None:
    with progress(quiet=True) as observer:
        assert isinstance(observer, SilentObserver)
    with progress(quiet=False) as observer:
        assert isinstance(observer, ProgressDisplay)


def test_facts_are_lines_or_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    written = {}
    for form in OutputFormat:
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stdout", stream)
        write_facts({"kind": "snapshot", "rows": 4}, form=form, color=ColorMode.NEVER)
        written[form] = stream.getvalue()
    assert written[OutputFormat.TEXT] == "kind  snapshot\nrows  4\n"
    assert json.loads(written[OutputFormat.JSON]) == {"kind": "snapshot", "rows": 4}
