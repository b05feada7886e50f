"""The options without which a command to run next would not see what this one saw."""

from __future__ import annotations

from collections.abc import Iterable


def carried_options(
    *, expect: Iterable[str] | None, layer0: str, tokenizer: str | None
) -> list[str]:
    """They as words of a command line, from the values of this one; what is the default is left out.

    Args:
        expect: the files that replaced the search for companions.
        layer0: what layer 0 was judged by.
        tokenizer: what said the words of tokens.
    """
    from kvaudit.core.audit_options import Layer0

    words = [part for path in expect or () for part in ("--expect", path)]
    if layer0 != Layer0.AUTO:
        words += ["--layer0", layer0]
    return words if tokenizer is None else [*words, "--tokenizer", tokenizer]
