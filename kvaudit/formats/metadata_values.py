"""Metadata values: text in the file, checked values here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from kvaudit.core.launch_tag import PoolKind
from kvaudit.core.rope import Rope
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import SchemaMismatch, ValuesInvalid
from kvaudit.formats.pairing_key import KEY_PARTS
from kvaudit.formats.schema import KEY_PREFIX, NUMBER_BOUNDS

Word = TypeVar("Word", bound=StrEnum)
_MAX_DIGITS = 19


class MetadataValues:
    """The metadata of one file, read key by key; what nobody asked for is kept.

    Args:
        metadata: without the `kvaudit.` prefix.
        path: the file as the user wrote it.
    """

    def __init__(self, metadata: Mapping[str, str], path: str) -> None:
        self._unread = dict(metadata)
        self._path = path

    def rest(self) -> dict[str, str]:
        """The keys that were not read."""
        return dict(self._unread)

    def refuse(self, key: str, value: object, wanted: str) -> SchemaMismatch:
        """The error for a value that is not what FORMAT.md says."""
        return SchemaMismatch(
            f"the metadata key {KEY_PREFIX}{key} is {str(value)[:80]!r}, not {wanted}",
            path=self._path,
            hint="correct the key where the file is written, or leave it out",
        )

    def peek(self, key: str) -> str | None:
        """A text that stays unread; None when the key is absent."""
        return self._unread.get(key)

    def text(self, key: str) -> str | None:
        """A text; None when the key is absent."""
        return self._unread.pop(key, None)

    def rope(self) -> Rope | None:
        """How K is rotated; None when the key is absent. The text stays unread.

        Raises:
            SchemaMismatch: it is no rotation.
        """
        text = self.peek("rope")
        try:
            return None if text is None else Rope.from_json(text)
        except ValuesInvalid as error:
            raise SchemaMismatch(
                f"the metadata key {KEY_PREFIX}rope: {error.message}",
                path=self._path,
                hint=error.hint,
            ) from error

    def number(self, key: str) -> int | None:
        """A decimal integer within NUMBER_BOUNDS; None when the key is absent."""
        least, most = NUMBER_BOUNDS[key]
        value = self.text(key)
        if value is None:
            return None
        digits = value.removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
        if not is_number or not least <= int(value) <= most:
            raise self.refuse(key, value, f"an integer from {least} to {most}")
        return int(value)

    def required_number(self, key: str) -> int:
        """The same of a key that the file cannot do without.

        Raises:
            SchemaMismatch: the key is absent.
        """
        number = self.number(key)
        if number is None:
            raise SchemaMismatch(
                f"it has no metadata key {KEY_PREFIX}{key}",
                path=self._path,
                hint="write it as FORMAT.md says",
            )
        return number

    def word(self, key: str, default: Word) -> Word:
        """One of the words of an enumeration; its default when the key is absent."""
        value = self.text(key)
        words = type(default)
        if value is None:
            return default
        if value not in set(words):
            raise self.refuse(key, value, " or ".join(words))
        return words(value)

    def names(self, key: str) -> tuple[str, ...]:
        """A JSON list of texts; empty when the key is absent."""
        value = self.text(key)
        if value is None:
            return ()
        try:
            names = json.loads(value)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self.refuse(key, value, "a JSON list of names")
        return tuple(names)

    def pool_key(self) -> tuple[PoolKey, dict[str, str | int]]:
        """The pairing key, and the parts of it that the file gives, by name."""
        given = [part for part in KEY_PARTS if part in self._unread]
        pool_kind = self.word("pool_kind", PoolKind.FULL)
        key = PoolKey(
            instance=self.text("instance"),
            group=self.text("group"),
            pool=self._unread.pop("pool", ""),
            pool_kind=pool_kind,
            tier=self.text("tier"),
            rank=self.number("rank"),
            step=self.number("step"),
        )
        parts = key.given()
        return key, {part: parts[part] for part in given}


def check_metadata(metadata: Mapping[str, object], *, path: str) -> None:
    """Refuse what no reader would take, before it is written.

    Args:
        metadata: without the `kvaudit.` prefix.
        path: the file, for messages.

    Raises:
        SchemaMismatch: a key or a value is no text, or a number is out of its bounds.
    """
    texts: dict[str, str] = {}
    for key, value in metadata.items():
        if not (is_text(key) and is_text(value)):
            raise MetadataValues({}, path).refuse(ascii(key), value, "a text")
        texts[key] = str(value)
    values = MetadataValues(texts, path)
    for key in NUMBER_BOUNDS:
        values.number(key)


def is_text(value: object) -> bool:
    """Whether a value is a string that UTF-8 can hold: lone surrogates are none."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
