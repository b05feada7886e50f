"""A vocabulary of a few words, one of which would act on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

ESCAPE = "\x1b[31m"
WORDS = {262: " the", 7042: " Paris", 314: " is", 9: ESCAPE}


class Vocabulary:
    """Says the words of WORDS."""

    def text_of(self, tokens: Sequence[int]) -> str | None:
        if any(token not in WORDS for token in tokens):
            return None
        return "".join(WORDS[token] for token in tokens)
