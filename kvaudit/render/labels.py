"""Values as people read them. Words that came from a file pass through `printable`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from kvaudit.core.column_names import column_layer
from kvaudit.core.layout import slot_label
from kvaudit.core.snapshot import PoolKey
from kvaudit.render.printable import printable

ALL_HUNDREDTHS: Final = 10_000


def count_label(count: int, noun: str, plural: str | None = None) -> str:
    """`1 slot`, `2,048 slots`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def known_label(value: object) -> str:
    """A value, or `-` for None."""
    return "-" if value is None else str(value)


def percent_label(ratio: float) -> str:
    """A share, rounded down: `100%` means all of it and `0%` none of it."""
    # 0.57 * 1e4 lies a hair below 5700, and all but 1 of 10^12 a hair below all.
    hundredths = math.floor(round(ratio * 1e4, 6))
    if ratio < 1:
        hundredths = min(hundredths, ALL_HUNDREDTHS - 1)
    return f"{hundredths / 100:g}%" if hundredths or not ratio else "<0.01%"


def listed(values: Sequence[object], *, most: int = 8) -> str:
    """Values joined by commas; past `most` the rest is counted."""
    words = ", ".join(printable(str(value)) for value in values[:most])
    rest = len(values) - most
    return f"{words} and {rest:,} more" if rest > 0 else words


def named(noun: str, values: Sequence[object]) -> str:
    """`request A`, `requests A, B`."""
    return f"{noun if len(values) == 1 else noun + 's'} {listed(values)}"


def ranges_label(numbers: Iterable[int], *, most: int | None = None) -> str:
    """Ascending whole numbers with runs folded: `0-15,17`; past `most` runs only `...`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:most]]
    return ",".join([*words, "..."] if len(runs) > len(words) else words)


def names_label(names: Sequence[str]) -> str:
    """Names of any columns, those of one stem folded: `kv.k.0-29 stamped.k.0-29 canary.k.tail`."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        stem, _, number = name.rpartition(".")
        is_numbered = bool(stem) and number.isascii() and number.isdigit()
        members = numbers.setdefault(stem if is_numbered else name, [])
        members += [int(number)] if is_numbered else []
    return " ".join(
        printable(f"{stem}.{ranges_label(members)}" if members else stem)
        for stem, members in numbers.items()
    )


def column_labels(columns: Sequence[str]) -> tuple[str, str]:
    """The layers of KV columns, and the columns: (`layers 0-29`, `kv.k.0-29 kv.v.0-29`)."""
    layers: dict[str, list[int]] = {}
    side: list[str] = []
    for column in columns:
        layer = column_layer(column)
        if layer is None:
            side.append(printable(column))
        else:
            layers.setdefault(column.rsplit(".", 1)[0], []).append(layer)
    words = [f"{stem}.{ranges_label(numbers)}" for stem, numbers in layers.items()] + side
    every_layer = {layer for numbers in layers.values() for layer in numbers}
    noun = "layer" if len(every_layer) == 1 else "layers"
    return (f"{noun} {ranges_label(every_layer)}" if every_layer else "no layer", " ".join(words))


def pool_label(key: PoolKey) -> str:
    """A pool among several: `decode-0.target.FULL.r3 step 120`."""
    step = "" if key.step is None else f" step {key.step}"
    return printable(key.label()) + step


def page_label(slot_idx: int, *, page_size: int) -> str:
    """The page of a slot, where one hash is of all of it: `page 2 (slots 4-5)`."""
    first = slot_idx // page_size * page_size
    return f"page {slot_idx // page_size} (slots {ranges_label(range(first, first + page_size))})"


def place_label(slot_idx: int, *, page_size: int, out_of_range: bool) -> str:
    """A slot in both numberings, or the bare number of one that the pool does not have."""
    if out_of_range or slot_idx < 0:
        return f"slot {slot_idx} (outside the pool)"
    return slot_label(slot_idx, page_size)
