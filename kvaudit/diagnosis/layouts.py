"""Ways to slice a pool wrongly, and which of them puts content where it was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

import numpy as np
from numpy.typing import NDArray

# A mistake is searched for among the parameters that most slots agree on.
_MOST_COMMON: Final = 3


class Misreading(Enum):
    """Where slot s of a column is read, when s is at row s // q of pages of q slots.

    PAGE_SIZE: pages have p slots, so slot p * (s // q) + s % q. STRIDE: slots are a apart and begin
    at b, so slot a * s + b. PACKED: blocks of u slots of both halves alternate, so block s // u is
    one of either half. EXCHANGED: the other half's slot s.
    """

    PAGE_SIZE = auto()
    STRIDE = auto()
    PACKED = auto()
    EXCHANGED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way to read each slot's content from somewhere else.

    Fields:
        misreading: the kind of mistake.
        page_size: slots a page, as the column was read.
        size: the true page size, the stride in slots, or the slots of a packed block.
        start: the slot that slot 0 was read from, or the packed block that block 0 was.
        other_first: whether the other half's block is the first of each packed pair.
    """

    misreading: Misreading
    page_size: int
    size: int = 1
    start: int = 0
    other_first: bool = False

    def homes(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The slot that each slot's content is of, and whether it is the other half's; [n] each."""
        own = np.zeros(slots.shape, dtype=np.bool_)
        if self.misreading is Misreading.PAGE_SIZE:
            page, offset = np.divmod(slots, self.page_size)
            return self.size * page + offset, own
        if self.misreading is Misreading.STRIDE:
            return self.size * slots + self.start, own
        if self.misreading is Misreading.EXCHANGED:
            return slots, ~own
        block, offset = np.divmod(slots, self.size)
        pair, second = np.divmod(block + self.start, 2)
        return pair * self.size + offset, (second == 1) != self.other_first

    def in_the_other_half(self, num_slots: int) -> Iterator[Layout]:
        """What the same mistake makes of the other half of a pool: it lies behind this one."""
        if self.misreading is not Misreading.PACKED:
            yield self
            return
        for shift in (num_slots // self.size, -(num_slots // self.size)):
            yield replace(self, start=self.start + shift, other_first=not self.other_first)

    def summary(self) -> str:
        """What the mistake is, for people."""
        if self.misreading is Misreading.PAGE_SIZE:
            return f"pages of {self.size} slots were read as pages of {self.page_size}"
        if self.misreading is Misreading.STRIDE:
            if self.size == 1:
                return f"slot 0 was read where slot {self.start} lies"
            return f"slots were read {self.size} slots apart, slot 0 where slot {self.start} lies"
        if self.misreading is Misreading.EXCHANGED:
            return "K was read as V and V as K"
        of_what = "slots" if self.size == 1 else f"pages of {self.size} slots"
        return f"K and V are packed, {of_what} in turn, and were read as one after another"


def candidate_layouts(
    slots: NDArray[np.int64],
    *,
    own_homes: NDArray[np.int64],
    other_homes: NDArray[np.int64],
    page_size: int,
) -> Iterator[Layout]:
    """The layouts that the homes of some slots speak for.

    Args:
        slots: slots that hold other content than was stamped, shape [n], int64, ascending.
        own_homes: the slot of the same half whose stamp each one's content fits, shape [n], int64;
            -1 where there is none.
        other_homes: the same in the other half.
        page_size: slots a page, as the column was read.
    """
    found = own_homes >= 0
    page, offset = np.divmod(slots, page_size)
    rest = own_homes - offset
    divides = found & (page > 0) & (rest % np.maximum(page, 1) == 0) & (rest > 0)
    for size in _most_common(rest[divides] // page[divides]):
        if size != page_size:
            yield Layout(misreading=Misreading.PAGE_SIZE, page_size=page_size, size=size)
    if (other_homes == slots).any():
        yield Layout(misreading=Misreading.EXCHANGED, page_size=page_size)
    homes = np.where(found, own_homes, other_homes)
    for unit in dict.fromkeys((1, page_size)):
        yield from _packed(slots[homes >= 0], homes[homes >= 0], ~found[homes >= 0], unit=unit)
    yield from _strides(slots[found], own_homes[found], page_size)


def _strides(
    slots: NDArray[np.int64], homes: NDArray[np.int64], page_size: int
) -> Iterator[Layout]:
    steps, gaps = np.diff(homes), np.diff(slots)
    whole = steps % gaps == 0
    for stride in _most_common(steps[whole] // gaps[whole]):
        for start in _most_common(homes - stride * slots):
            if stride > 0 and (stride, start) != (1, 0):
                yield Layout(
                    misreading=Misreading.STRIDE, page_size=page_size, size=stride, start=start
                )


def _packed(
    slots: NDArray[np.int64], homes: NDArray[np.int64], is_other: NDArray[np.bool_], *, unit: int
) -> Iterator[Layout]:
    in_place = slots % unit == homes % unit
    for other_first in (False, True):
        second = is_other != other_first
        starts = 2 * (homes // unit) + second - slots // unit
        for start in _most_common(starts[in_place]):
            yield Layout(
                misreading=Misreading.PACKED,
                page_size=unit,
                size=unit,
                start=start,
                other_first=other_first,
            )


def _most_common(values: NDArray[np.int64]) -> list[int]:
    distinct, counts = np.unique(values, return_counts=True)
    common: list[int] = distinct[np.argsort(-counts, kind="stable")[:_MOST_COMMON]].tolist()
    return common
