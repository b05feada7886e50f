"""Slots and pages as people read and write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvaudit.errors import ConfigError

_RANGE: Final = re.compile(r"(?P<first>[0-9]+)(?: *- *(?P<last>[0-9]+))?")


def slot_label(slot_idx: int, page_size: int) -> str:
    """A slot in both numberings, such as `slot 4103 (page 256 +7)`."""
    return f"slot {slot_idx} (page {slot_idx // page_size} +{slot_idx % page_size})"


def rows_per_page(slots: NDArray[np.int64], page_size: int) -> NDArray[np.int64]:
    """How many of ascending slots, shape [n], int64, are of each page that has any.

    Returns:
        shape [pages], int64.
    """
    first_rows = np.flatnonzero(np.diff(slots // page_size, prepend=-1))
    return np.diff(first_rows, append=len(slots))


@dataclass(frozen=True, slots=True)
class SlotRanges:
    """A set of slots as inclusive ranges, ascending and disjoint.

    Fields:
        ranges: pairs (first, last), both inclusive.
    """

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> SlotRanges:
        """Read `0`, `0-15`, `0,4-7` or `none`.

        Raises:
            ConfigError: the text has another form, or a range runs backwards.
        """
        if text.strip() in ("", "none"):
            return cls(())
        pairs = []
        for part in text.split(","):
            found = _RANGE.fullmatch(part.strip())
            if found is None:
                raise ConfigError(
                    f"{text!r} is not a list of slots", hint="write 0, 0-15, 0,4-7 or none"
                )
            pair = int(found["first"]), int(found["last"] or found["first"])
            if pair[1] < pair[0]:
                raise ConfigError(f"the range {part.strip()!r} runs backwards", hint="write A-B")
            pairs.append(pair)
        return cls.of(pairs)

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> SlotRanges:
        """Build from any inclusive pairs; touching ones are joined."""
        joined: list[tuple[int, int]] = []
        for first, last in sorted(pairs):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(joined[-1][1], last))
            else:
                joined.append((first, last))
        return cls(tuple(joined))

    def __str__(self) -> str:
        return (
            ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges)
            if self.ranges
            else "none"
        )

    def __contains__(self, slot_idx: int) -> bool:
        return any(first <= slot_idx <= last for first, last in self.ranges)

    def mask(self, slot_indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of slot_indices, shape [n], int64, are in the set; shape [n], bool."""
        inside = np.zeros(slot_indices.shape, dtype=np.bool_)
        for first, last in self.ranges:
            inside |= (slot_indices >= first) & (slot_indices <= last)
        return inside
