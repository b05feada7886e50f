"""Sizes as people read them, in reasons and in reports alike."""

from __future__ import annotations

from typing import Final

KILO: Final = 1000


def bytes_label(num_bytes: int) -> str:
    """`512 B`, `1.5 MB`, `4.3 GB`: powers of 1000, as timing is given."""
    size, unit = float(num_bytes), "B"
    for larger in ("kB", "MB", "GB"):
        if size < KILO:
            break
        size, unit = size / KILO, larger
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
