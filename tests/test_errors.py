from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvaudit import errors
from kvaudit.errors import (
    CanaryStalledError,
    CanaryViolationError,
    InputError,
    KvauditError,
    ValuesInvalid,
)


def test_an_input_error_says_file_column_and_row_before_what_is_wrong() -> None:
    error = ValuesInvalid(
        "slot 2 follows slot 2", path="a.arrow", column="slot", row=3, hint="sort"
    )
    assert str(error) == "a.arrow, column slot, row 3: slot 2 follows slot 2"
    assert (error.path, error.column, error.row, error.hint) == ("a.arrow", "slot", 3, "sort")


def test_row_and_column_0_are_places_too() -> None:
    assert str(InputError("null", column="", row=0)) == "column , row 0: null"


def test_an_error_without_a_place_is_its_message() -> None:
    assert str(InputError("no snapshot")) == "no snapshot"
    assert str(KvauditError("boom", hint="again")) == "boom"
    assert KvauditError("boom").hint == ""


def test_the_hint_stands_under_a_traceback() -> None:
    shown = "".join(traceback.format_exception(ValuesInvalid("a null", path="a", hint="fill it")))
    assert shown.endswith("ValuesInvalid: a: a null\nhint: fill it\n")
    assert not hasattr(KvauditError("boom"), "__notes__")


def _raised(path: Path) -> Iterator[ast.Call]:
    """The calls that make the exceptions which a module raises."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield node.exc


def test_whatever_refuses_a_file_says_what_to_try_next() -> None:
    package = Path(errors.__file__).parent
    readers = [
        package / "core/snapshot.py",
        *(path for path in (package / "formats").glob("*.py") if "_writer" not in path.name),
    ]
    refusals = [
        (path.name, call)
        for path in readers
        for call in _raised(path)
        if isinstance(call.func, ast.Name) and hasattr(errors, call.func.id)
    ]
    without = [
        f"{name}:{call.lineno}"
        for name, call in refusals
        if not any(keyword.arg == "hint" for keyword in call.keywords)
    ]
    assert len(refusals) > 30
    assert without == []


def test_a_note_beside_a_file_names_another_file_and_not_itself() -> None:
    error = ValuesInvalid("a null", path="a.arrow")
    assert error.left_out_note("a.arrow") == "not audited: a null"
    assert error.left_out_note("b.arrow") == "not audited: a.arrow: a null"


def test_a_stall_names_its_tags_and_step_in_words_that_log_parsers_know() -> None:
    error = CanaryStalledError(["HEAD_K_FULL", "TAIL_K_FULL"], step=200)
    assert str(error) == (
        "kv-canary: kernel_run_counter did not increase since previous check for "
        "tags=[HEAD_K_FULL, TAIL_K_FULL] at step=200; canary path is not executing"
    )
    assert (error.tags, error.step) == (("HEAD_K_FULL", "TAIL_K_FULL"), 200)


@pytest.mark.parametrize(
    "error", [CanaryStalledError(["TAIL_K_FULL"], step=1), CanaryViolationError("x", step=1)]
)
def test_what_a_canary_raises_in_an_engine_is_a_runtime_error_too(error: KvauditError) -> None:
    assert isinstance(error, RuntimeError)
    assert error.step == 1
