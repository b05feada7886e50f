from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit.errors import FileUnreadable
from kvaudit.formats.given_path import refuse_empty
from tests.helpers.command_line import kvaudit

CLEAN = str(Path(__file__).parents[2] / "examples" / "smollm2-clean")


def test_a_path_of_some_letters_is_the_systems_to_judge() -> None:
    refuse_empty(" ")


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(FileUnreadable, match="a path is empty"):
        refuse_empty("")


@pytest.mark.parametrize(
    "args",
    [
        ["show", ""],
        ["explain", ""],
        ["verify", ""],
        ["verify", CLEAN, "--expect", ""],
        ["verify", CLEAN, "--layer0", ""],
        ["verify", CLEAN, "--tokenizer", ""],
        ["learn", "--model", "", "-o", "unwritten.table.arrow"],
    ],
)
def test_every_command_says_that_a_path_is_empty(args: list[str]) -> None:
    done = kvaudit(*args)
    assert done.returncode == 3
    assert "a path is empty" in done.stderr
