"""What an engine hands over, checked before anything is written: errors name the argument."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final, Protocol, TypeVar

from kvaudit.core.layout import SlotRanges
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.errors import ConfigError
from kvaudit.formats.limits import MAX_POSITION, MAX_STRING_BYTES

# What a snapshot says of itself comes from the pool and from arguments of their own.
_OWN_KEYS: Final = {field.name for field in (*fields(Snapshot), *fields(PoolKey))} - {"tier"} | {
    "kind",
    "format",
    "sequences",
    "rope",
}

_Item_co = TypeVar("_Item_co", covariant=True)


class Indexed(Protocol[_Item_co]):
    """A list, a tuple, an array or a tensor."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> _Item_co: ...


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise ConfigError(f"{name}: {value!r}", hint=f"use {' or '.join(choices)}")


def integer(value: object, name: str, *, at_least: int) -> int:
    """A whole number, of whatever type, as an int."""
    try:
        number = operator.index(value)  # type: ignore[arg-type] # that is the question
    except TypeError:
        number = None
    if number is None or not at_least <= number <= MAX_POSITION:
        raise ConfigError(
            f"{name}: {value!r}", hint=f"give an integer from {at_least} to {MAX_POSITION}"
        )
    return number


def layer_number(value: object, name: str) -> int:
    """The number of a layer."""
    return integer(value, name, at_least=0)


def text(value: object, name: str) -> str:
    """A string that a file can hold; other values, such as integers, are written as strings."""
    written = str(value)
    try:
        num_bytes = len(written.encode())
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{name}: {written!r} is not valid Unicode", hint="replace its surrogates"
        ) from error
    if num_bytes > MAX_STRING_BYTES:
        raise ConfigError(
            f"{name}: {num_bytes} bytes, starting {written[:40]!r}",
            hint=f"give at most {MAX_STRING_BYTES} bytes, such as a hash",
        )
    return written


def texts(values: Indexed[object], name: str) -> list[str]:
    """One string an entry; a tensor's entries are its numbers."""
    entries = values.tolist() if hasattr(values, "tolist") else values
    return [text(entries[index], f"{name}[{index}]") for index in range(len(entries))]


def indexed(values: Indexed[_Item_co], name: str) -> Indexed[_Item_co]:
    """Refuse what has no length and order, such as a dict, a set, a generator or a number."""
    is_scalar = getattr(values, "ndim", 1) == 0
    has_order = hasattr(values, "__getitem__") and hasattr(values, "__len__")
    if is_scalar or not has_order or isinstance(values, Mapping | str | bytes):
        raise ConfigError(
            f"{name}: a {type(values).__name__}, which has no entry a request",
            hint="give a list, an array or a tensor with one entry a request, in the same order",
        )
    return values


def slot_ranges(value: object, name: str) -> SlotRanges:
    """Slots that are named as `0`, `0-15`, `0,4-7` or `none`."""
    hint = "write '0', '0-15', '0,4-7' or 'none'"
    if not isinstance(value, str):
        raise ConfigError(f"{name}: {value!r}", hint=hint)
    try:
        return SlotRanges.parse(value)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.message}", hint=hint) from error


def schema_metadata(values: Mapping[str, str] | None) -> dict[str, str]:
    """Further metadata of a file, none of which is already an argument."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ConfigError(f"metadata: {values!r}", hint="give a dict of strings")
    metadata: dict[str, str] = {}
    for key, value in values.items():
        name = text(key, "metadata")
        if name in _OWN_KEYS:
            raise ConfigError(
                f"metadata: {name!r} is what the dump itself says of the pool",
                hint="pass it as an argument of its own, or choose another key",
            )
        metadata[name] = text(value, f"metadata[{name!r}]")
    return metadata
