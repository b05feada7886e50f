"""The help: grouped, plain, quick, and free of heavy imports."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from kvaudit.cli.app import ADVANCED, CAPTURE, CHECK, app
from tests.helpers.command_line import ROOT, environment, kvaudit, python

HEAVY = ("torch", "numba", "pyarrow")
IMPORTED = "\nprint([name for name in {heavy} if name in sys.modules], file=sys.stderr)"


def test_commands_stand_under_their_groups_in_order() -> None:
    words = kvaudit("--help").stdout.split()
    order = [f"{CHECK}:", "verify", "show", f"{CAPTURE}:", "stamp", f"{ADVANCED}:", "doctor"]
    places = [words.index(word) for word in order]
    assert places == sorted(places)


def test_every_command_belongs_to_a_group() -> None:
    assert {command.rich_help_panel for command in app.registered_commands} == {
        CHECK,
        CAPTURE,
        ADVANCED,
    }


def test_help_is_plain_text_even_where_colour_is_forced() -> None:
    text = kvaudit("verify", "--help", FORCE_COLOR="1").stdout
    assert "\x1b" not in text
    assert "─" not in text


def test_every_option_names_its_variable() -> None:
    for command in app.registered_commands:
        text = " ".join(kvaudit(command.callback.__name__, "--help").stdout.split())
        options = text.partition("Options: ")[2].split(" --")[1:]
        named = [option for option in options if not option.startswith("help")]
        assert named
        for option in named:
            assert "env var: KVAUDIT_" in option, option


@pytest.mark.parametrize("args", [["--help"], ["verify", "--help"], ["bogus"]], ids=" ".join)
def test_help_and_usage_errors_import_nothing_heavy(args: list[str]) -> None:
    code = f"import sys\nfrom kvaudit.cli.entry import run\nrun({args!r})" + IMPORTED.format(
        heavy=(*HEAVY, "numpy")
    )
    assert python("-c", code).stderr.splitlines()[-1] == "[]"


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, kvaudit" + IMPORTED.format(heavy=(*HEAVY, "numpy", "typer", "rich"))
    assert python("-c", code).stderr == "[]\n"


def _seconds(*args: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *args],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def test_help_takes_little_more_than_its_own_libraries() -> None:
    """Both in turn, and the best of each, so that a busy machine slows both alike."""
    pairs = [
        (_seconds("-c", "import typer, rich"), _seconds("-m", "kvaudit", "--help"))
        for _ in range(12)
    ]
    libraries, help_page = (min(seconds) for seconds in zip(*pairs, strict=True))
    assert help_page <= 1.6 * libraries
