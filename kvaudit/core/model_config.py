"""A model's `config.json`, key by key, each value of the type that is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from kvaudit.errors import SchemaMismatch

MODEL_HINT: Final = "give the folder of a model as its makers publish it"


class ModelConfig:
    """A JSON object of a configuration.

    Args:
        values: the object.
        path: the file, for messages; "" of a configuration in memory.
        place: where in the file it stands, such as `text_config.`; "" at the top.
    """

    def __init__(self, values: Mapping[str, Any], *, path: str = "", place: str = "") -> None:
        self.path = path
        self._values = values
        self._place = place

    def has(self, key: str) -> bool:
        """Whether a key is there and not null."""
        return self._values.get(key) is not None

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number.

        Raises:
            SchemaMismatch: it is none, or it is missing and there is no default.
        """
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value or 0):
            raise self.refuse(key, "a number")
        return float(value or 0)

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number above 0.

        Raises:
            SchemaMismatch: it is none, or it is missing and there is no default.
        """
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
            raise self.refuse(key, "a whole number above 0")
        return value

    def flag(self, key: str) -> bool:
        """Whether a switch is on; it is off where it is missing."""
        return bool(self._values.get(key))

    def text(self, key: str) -> str:
        """A text; "" where it is missing.

        Raises:
            SchemaMismatch: it is none.
        """
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.refuse(key, "a text")
        return value or ""

    def numbers(self, key: str) -> list[float]:
        """A list of numbers.

        Raises:
            SchemaMismatch: it is none.
        """
        values = self._values.get(key)
        if not isinstance(values, list) or not all(type(each) in (int, float) for each in values):
            raise self.refuse(key, "a list of numbers")
        return [float(each) for each in values]

    def first(self, key: str) -> object:
        """The first element of a list, which is layer 0's; None where there is no list."""
        values = self._values.get(key)
        return values[0] if isinstance(values, list) and values else None

    def section(self, key: str) -> ModelConfig | None:
        """An object within this one; None where it is missing.

        Raises:
            SchemaMismatch: it is none.
        """
        values = self._values.get(key)
        if values is None:
            return None
        if not isinstance(values, dict):
            raise self.refuse(key, "an object")
        return ModelConfig(values, path=self.path, place=f"{self._place}{key}.")

    def refuse(self, key: str, wanted: str) -> SchemaMismatch:
        """The error for a value that is missing, or not what is wanted."""
        value = self._values.get(key)
        found = "is missing" if value is None else f"is {value!r:.80}"
        return SchemaMismatch(
            f"{self._place}{key} {found}, and should be {wanted}",
            path=self.path or None,
            hint=MODEL_HINT,
        )
