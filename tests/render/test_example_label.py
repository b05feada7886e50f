"""An example is its parts by name; one of what a slot should hold and holds is a sentence."""

from __future__ import annotations

import pytest

from kvaudit.render.example_label import example_label, range_label, value_label
from tests.helpers.vocabulary import Vocabulary

HELD = {"slot": 7, "token": 262, "holds": "another token", "holds_token": 7042}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"content_of": "r12"}, "slot 7 should hold ' the', holds ' Paris' of request r12"),
        ({"content_position": 5}, "slot 7 should hold ' the', holds ' Paris' at position 5"),
        ({"holds_token": 9}, r"slot 7 should hold ' the', holds '\x1b[31m'"),
        (
            {"holds_token": 5, "content_of": "\x1b[2J"},
            r"slot 7 should hold ' the', holds token 5 of request \x1b[2J",
        ),
        ({"holds_token": None, "holds": "zeros"}, "slot 7 should hold ' the', holds zeros"),
        ({"holds_token": -1, "holds": "\x07"}, r"slot 7 should hold ' the', holds \x07"),
    ],
)
def test_what_a_slot_should_hold_and_holds_is_a_sentence(more: dict, sentence: str) -> None:
    assert example_label({**HELD, **more}, Vocabulary()) == sentence


def test_without_a_tokenizer_the_sentence_has_numbers() -> None:
    assert example_label({**HELD, "content_of": "r12"}, None) == (
        "slot 7 should hold token 262, holds token 7042 of request r12"
    )


def test_a_range_is_two_texts_with_their_places() -> None:
    stretch = {
        "request_id": "tale",
        "slots": [96, 98],
        "positions": [16, 18],
        "tokens": [262, 314, 262],
        "content_of": "r12",
        "content_positions": [0, 2],
        "content_tokens": [7042, 314, 9],
    }
    assert range_label(stretch, Vocabulary()) == (
        "slots 96-98 of request tale, positions 16-18 should read ' the is the', "
        r"read ' Paris is\x1b[31m' of request r12, positions 0-2"
    )
    assert "should read tokens 262 314 262, read tokens 7042 314 9 of" in range_label(stretch, None)
    del stretch["content_tokens"]
    assert range_label(stretch, None) == (
        "slots 96-98 of request tale, positions 16-18 should read tokens 262 314 262"
    )
    one = {"request_id": None, "slots": [96, 96], "positions": [16, 16], "tokens": [262]}
    assert range_label(one, Vocabulary()) == "slot 96, position 16 should read ' the'"
    assert range_label({"slots": [96, 98]}, None) == "slots 96 98"


def test_a_row_of_another_position_is_a_sentence() -> None:
    example = {"slot": 9, "request_id": "sky", "position": 19, "token": 262, "rotated_for": 21}
    assert example_label(example, Vocabulary()) == (
        "slot 9 holds ' the' of position 19, rotated for position 21"
    )
    del example["rotated_for"]
    assert example_label(example, None) == "slot 9, request_id sky, position 19, token 262"


def test_other_examples_are_their_parts_and_tokens_have_words_beside_them() -> None:
    example = {"slot": 4, "token": 262, "owners": [{"request_id": "A", "position": 2}]}
    assert example_label(example, None) == "slot 4, token 262, owners (request_id A, position 2)"
    assert example_label(example, Vocabulary()).startswith("slot 4, token 262 ' the', owners")


@pytest.mark.parametrize("value", [None, -1, "262", 262.0])
def test_what_is_no_token_has_no_word(value: object) -> None:
    assert value_label({"expected_token": value}, Vocabulary()) == f"expected_token {value}"
