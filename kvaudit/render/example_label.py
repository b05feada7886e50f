"""One example of a finding's evidence as words, its tokens as text where a tokenizer says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kvaudit.render.printable import printable
from kvaudit.render.token_labels import TokenWords, token_label, tokens_label

# What a slot should hold and what it holds: an example that has both is said as a sentence.
_COMPARED: Final = ("expected_token", "found_token")
_COMPARED_TEXTS: Final = ("expected_tokens", "found_tokens")


def example_label(example: object, words: TokenWords | None) -> str:
    """`slot 7 should hold ' the', holds ' Paris' of request r12`, or the example's parts by name."""
    if isinstance(example, Mapping):
        if all(name in example for name in _COMPARED):
            return _sentence(example, words)
        if all(name in example for name in _COMPARED_TEXTS):
            return _stretch(example, words)
    return value_label(example, words)


def value_label(value: object, words: TokenWords | None = None) -> str:
    """A JSON value as words: `slot 4, owners (request_id A, position 2)`."""
    if isinstance(value, Mapping):
        return ", ".join(_part(str(name), item, words) for name, item in value.items())
    if isinstance(value, list | tuple):
        return " ".join(nested_label(item, words) for item in value)
    return printable(str(value))


def nested_label(value: object, words: TokenWords | None = None) -> str:
    """The same within another value: an object in parentheses."""
    label = value_label(value, words)
    return f"({label})" if isinstance(value, Mapping) else label


def _part(name: str, value: object, words: TokenWords | None) -> str:
    label = f"{printable(name)} {nested_label(value, words)}"
    is_token = name == "token" or name.endswith("_token")
    if words is None or not is_token or not isinstance(value, int) or value < 0:
        return label
    return f"{label} {token_label(value, words)}"


def _sentence(example: Mapping[str, Any], words: TokenWords | None) -> str:
    """What one slot should hold, and whose it holds instead."""
    expected, found = (example[name] for name in _COMPARED)
    holds = example.get("holds") or "what is of no known token"
    if _is_known(found):
        holds = token_label(found, words)
    due = token_label(expected, words) if _is_known(expected) else "its own token"
    return f"{_place(example)} should hold {due}, holds {printable(holds)}{_owner(example)}"


def _stretch(example: Mapping[str, Any], words: TokenWords | None) -> str:
    """What consecutive slots should read, and what they read instead."""
    expected, found = (_known_part(example[name]) for name in _COMPARED_TEXTS)
    reads = tokens_label(found, words) if found else "what is of no known token"
    return (
        f"{_place(example)} should read {tokens_label(expected, words)}, "
        f"read {reads}{_owner(example)}"
    )


def _place(example: Mapping[str, Any]) -> str:
    slots = example.get("slots")
    if isinstance(slots, list | tuple):
        return f"slots {'-'.join(str(slot) for slot in slots)}"
    return f"slot {example.get('slot')}"


def _owner(example: Mapping[str, Any]) -> str:
    request, position = example.get("of_request"), example.get("of_position")
    label = "" if request is None else f" of request {printable(str(request))}"
    return label + ("" if position is None else f" at position {position}")


def _is_known(token: object) -> bool:
    return isinstance(token, int) and token >= 0


def _known_part(tokens: Sequence[int]) -> list[int]:
    """The tokens up to the first that is not known."""
    known: list[int] = []
    for token in tokens:
        if not _is_known(token):
            break
        known.append(token)
    return known
