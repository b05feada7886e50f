from __future__ import annotations

from kvaudit.errors import InputError, KvauditError, ValuesInvalid


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


def test_a_note_beside_a_file_names_another_file_and_not_itself() -> None:
    error = ValuesInvalid("a null", path="a.arrow")
    assert error.left_out_note("a.arrow") == "not audited: a null"
    assert error.left_out_note("b.arrow") == "not audited: a.arrow: a null"
