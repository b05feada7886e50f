"""Words of tokens are quoted: what stands in them cannot act on a terminal, nor end its quotes."""

from __future__ import annotations

import pytest

from kvaudit.render.token_labels import MAX_CHARS, quoted, token_label, tokens_label
from tests.helpers.vocabulary import Vocabulary


def test_a_token_is_its_word_where_there_is_one() -> None:
    assert token_label(7042, Vocabulary()) == "' Paris'"
    assert token_label(3, Vocabulary()) == "token 3"
    assert token_label(2, None) == "token 2"


def test_a_stretch_is_its_text_where_every_word_is_known() -> None:
    assert tokens_label([262, 7042], Vocabulary()) == "' the Paris'"
    assert tokens_label([262], Vocabulary()) == "' the'"
    assert tokens_label([1, 3], Vocabulary()) == "tokens 1 3"
    assert tokens_label([1, 2], None) == "tokens 1 2"


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]0;owned\x07",
        "line\nfeed\rreturn",
        "\u202eright to left",
        "a'b\"c",
        "\x9b31m",
        "\u2028",
        "\ud800",
        "back\\slash",
    ],
)
def test_nothing_in_a_word_reaches_the_terminal(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert shown[0] == shown[-1]
    assert shown[0] in "'\""
    inner = shown[1:-1].replace("\\\\", "").replace(f"\\{shown[0]}", "")
    assert shown[0] not in inner


def test_a_long_text_is_counted_past_its_beginning() -> None:
    assert quoted("x" * MAX_CHARS) == repr("x" * MAX_CHARS)
    assert quoted("x" * (MAX_CHARS + 1200)).endswith("' and 1,200 more characters")
