"""An example is its parts by name; one of what a slot should hold and holds is a sentence."""

from __future__ import annotations

import pytest

from kvaudit.render.example_label import example_label, value_label
from tests.helpers.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("example", "sentence"),
    [
        (
            {"slot": 7, "expected_token": 262, "found_token": 7042, "of_request": "r12"},
            "slot 7 should hold ' the', holds ' Paris' of request r12",
        ),
        (
            {"slot": 7, "expected_token": 262, "found_token": 7042, "of_position": 5},
            "slot 7 should hold ' the', holds ' Paris' at position 5",
        ),
        (
            {"slot": 7, "expected_token": 262, "found_token": 9},
            r"slot 7 should hold ' the', holds '\x1b[31m'",
        ),
        (
            {"slot": 7, "expected_token": 262, "found_token": 5, "of_request": "\x1b[2J"},
            r"slot 7 should hold ' the', holds token 5 of request \x1b[2J",
        ),
        (
            {"slot": 7, "expected_token": 262, "found_token": None, "holds": "zeros"},
            "slot 7 should hold ' the', holds zeros",
        ),
        (
            {"slot": 7, "expected_token": 262, "found_token": -1},
            "slot 7 should hold ' the', holds what is of no known token",
        ),
    ],
)
def test_what_a_slot_should_hold_and_holds_is_a_sentence(example: dict, sentence: str) -> None:
    assert example_label(example, Vocabulary()) == sentence


def test_without_a_tokenizer_the_sentence_has_numbers() -> None:
    example = {"slot": 7, "expected_token": 262, "found_token": 7042, "of_request": "r12"}
    assert example_label(example, None) == (
        "slot 7 should hold token 262, holds token 7042 of request r12"
    )


def test_a_stretch_is_two_texts_up_to_what_is_not_known() -> None:
    stretch = {
        "slots": [96, 98],
        "expected_tokens": [262, 314, 262],
        "found_tokens": [7042, 314, None],
        "of_request": "r12",
        "of_position": 0,
    }
    assert example_label(stretch, Vocabulary()) == (
        "slots 96-98 should read ' the is the', read ' Paris is' of request r12 at position 0"
    )
    nothing = {**stretch, "found_tokens": [-1, 314]}
    assert "read what is of no known token of request" in example_label(nothing, Vocabulary())


def test_other_examples_are_their_parts_and_tokens_have_words_beside_them() -> None:
    example = {"slot": 4, "token": 262, "owners": [{"request_id": "A", "position": 2}]}
    assert example_label(example, None) == "slot 4, token 262, owners (request_id A, position 2)"
    assert example_label(example, Vocabulary()).startswith("slot 4, token 262 ' the', owners")


@pytest.mark.parametrize("value", [None, -1, "262", 262.0])
def test_what_is_no_token_has_no_word(value: object) -> None:
    assert value_label({"expected_token": value}, Vocabulary()) == f"expected_token {value}"
