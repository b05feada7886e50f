"""Tokens as people read them: quoted words where a tokenizer knows them, else numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

# Of a stretch of text, enough to know it again.
MAX_CHARS: Final = 72


class TokenWords(Protocol):
    """A vocabulary. What it says is a part of somebody's prompt: for local text output alone."""

    def text_of(self, tokens: Sequence[int]) -> str | None:
        """The text of consecutive tokens, special ones included; None where one is not known.

        Nothing in it is escaped.
        """
        ...


def token_label(token: int, words: TokenWords | None) -> str:
    """`' Paris'`, or `token 7042` of one that nothing says the word of."""
    text = None if words is None else words.text_of([token])
    return f"token {token}" if text is None else quoted(text)


def tokens_label(tokens: Sequence[int], words: TokenWords | None) -> str:
    """`' Paris is the'`, or `tokens 7042 314 260` where a word of them is not known."""
    if len(tokens) == 1:
        return token_label(tokens[0], words)
    text = None if words is None else words.text_of(tokens)
    return f"tokens {' '.join(map(str, tokens))}" if text is None else quoted(text)


def quoted(text: str) -> str:
    r"""A text in quotes, whatever is in it: controls become escapes such as `\x1b`.

    What is past MAX_CHARS is counted.
    """
    rest = len(text) - MAX_CHARS
    # Python's own quoting escapes the quote, the backslash and all that a terminal would obey.
    return repr(text[:MAX_CHARS]) + (f" and {rest:,} more characters" if rest > 0 else "")
