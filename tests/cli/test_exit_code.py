"""Every error has a code, and 1 is nobody's but a Report's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvaudit import errors
from kvaudit.cli import entry
from kvaudit.cli.exit_code import BRANCHES, ExitCode, exit_code_of
from kvaudit.cli.verify_cmd import HELP
from kvaudit.core.report import EXIT_CODE_LEFT_OUT, EXIT_CODES
from kvaudit.errors import KvauditError


def tree(root: type[KvauditError] = KvauditError) -> Iterator[type[KvauditError]]:
    for child in root.__subclasses__():
        yield child
        yield from tree(child)


ERRORS = [kind for kind in tree() if kind.__module__ == errors.__name__]


def test_the_numbers_are_those_that_scripts_rely_on() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "CLEAN": 0,
        "VIOLATIONS": 1,
        "USAGE": 2,
        "INPUT": 3,
        "BACKEND": 4,
        "INCOMPLETE": 5,
        "INTERNAL": 70,
        "INTERRUPTED": 130,
        "CLOSED_PIPE": 141,
    }


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_lies_on_one_branch_that_has_a_code(kind) -> None:
    assert [branch for branch in BRANCHES if issubclass(kind, branch)] in [[b] for b in BRANCHES]
    assert exit_code_of(kind.__new__(kind, "x")) in set(BRANCHES.values())


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_drawn_in_the_tree(kind) -> None:
    assert f" {kind.__name__} " in errors.__doc__


def test_no_error_can_be_taken_for_violations() -> None:
    assert ExitCode.VIOLATIONS not in {exit_code_of(kind.__new__(kind, "x")) for kind in ERRORS}
    assert exit_code_of(KvauditError("outside every branch")) is ExitCode.INTERNAL


def test_the_codes_that_need_no_import_are_the_same() -> None:
    assert entry.INTERNAL == ExitCode.INTERNAL
    assert entry.INTERRUPTED == ExitCode.INTERRUPTED
    assert entry.CLOSED_PIPE == ExitCode.CLOSED_PIPE


def test_the_help_lists_every_code() -> None:
    words = " ".join(HELP.split())
    for code in ExitCode:
        assert f" {code:d} {code.name.lower().replace('_', ' ')}" in words


def test_a_reports_codes_are_those_of_the_command_line() -> None:
    assert {verdict.name: code for verdict, code in EXIT_CODES.items()} == {
        name: ExitCode[name] for name in ("CLEAN", "VIOLATIONS", "INCOMPLETE")
    }
    assert EXIT_CODE_LEFT_OUT == ExitCode.INPUT
