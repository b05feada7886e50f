"""One example of a finding's evidence as words, its tokens as text where a tokenizer says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from kvaudit.render.printable import printable
from kvaudit.render.token_labels import TokenWords, token_label, tokens_label


def example_label(example: object, words: TokenWords | None) -> str:
    """`slot 7 should hold ' the', holds ' Paris' of request r12`, or the example's parts by name."""
    if isinstance(example, Mapping) and {"token", "holds"} <= example.keys():
        return _sentence(example, words)
    if isinstance(example, Mapping) and {"token", "rotated_for"} <= example.keys():
        return _rotation(example, words)
    return value_label(example, words)


def range_label(stretch: object, words: TokenWords | None) -> str:
    """`slots 96-111 of request A should read ' the', read ' Paris' of request r12`, or its parts."""
    if isinstance(stretch, Mapping) and "tokens" in stretch:
        return _reading(stretch, words)
    return value_label(stretch, words)


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
    names_token = name == "token" or name.endswith("_token")
    if words is None or not names_token or not _is_token(value):
        return label
    return f"{label} {token_label(value, words)}"


def _sentence(example: Mapping[str, Any], words: TokenWords | None) -> str:
    """What one slot should hold, and what it holds instead."""
    holds = str(example["holds"])
    if _is_token(example.get("holds_token")):
        holds = token_label(example["holds_token"], words)
    sentence = f"slot {example.get('slot')} should hold {token_label(example['token'], words)}"
    sentence = f"{sentence}, holds {printable(holds)}"
    if example.get("content_of") is not None:
        sentence += f" of request {printable(str(example['content_of']))}"
    if example.get("content_position") is not None:
        sentence += f" at position {example['content_position']}"
    return sentence


def _rotation(example: Mapping[str, Any], words: TokenWords | None) -> str:
    """Which token one slot holds, and the position that it is rotated for."""
    return (
        f"slot {example.get('slot')} holds {token_label(example['token'], words)} of position "
        f"{example.get('position')}, rotated for position {example['rotated_for']}"
    )


def _reading(stretch: Mapping[str, Any], words: TokenWords | None) -> str:
    """What consecutive slots should read, and what they read instead, as far as that is told."""
    due = tokens_label(stretch["tokens"], words)
    place = f"{_span('slot', stretch.get('slots'))}{_place(stretch, 'request_id', 'positions')}"
    if "content_tokens" not in stretch:
        return f"{place} should read {due}"
    read = tokens_label(stretch["content_tokens"], words)
    return f"{place} should read {due}, read {read}{_place(stretch, 'content_of', 'content_positions')}"


def _place(stretch: Mapping[str, Any], owner: str, positions: str) -> str:
    """` of request A, positions 16-31`, as far as it is known."""
    name = stretch.get(owner)
    label = "" if name is None else f" of request {printable(str(name))}"
    span = _span("position", stretch.get(positions))
    return f"{label}, {span}" if span else label


def _span(noun: str, ends: object) -> str:
    """`slots 96-98`, or `slot 96` where both ends of a list are one; "" of anything else."""
    if not isinstance(ends, list | tuple) or not ends:
        return ""
    if ends[0] == ends[-1]:
        return f"{noun} {ends[0]}"
    return f"{noun}s {ends[0]}-{ends[-1]}"


def _is_token(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value >= 0
