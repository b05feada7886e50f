"""Where a hash belongs in the tables of the join, as bodies that njit compiles.

All operands are uint64. Slot hashes are spread evenly by themselves; those of a forged dump need not
be, so a salt that its maker cannot know decides the place within a table.
"""

from __future__ import annotations

import numpy as np

NUM_SHARES = 16
_SHARE_SHIFT = np.uint64(64 - (NUM_SHARES - 1).bit_length())


def share_of(hashed):
    """Which of the NUM_SHARES tables holds a hash: its top bits; uint64."""
    return hashed >> _SHARE_SHIFT


def make_place_of(compiled_splitmix64):
    """The body of place_of, over a compiled splitmix64."""

    def place_of(hashed, salt, place_mask):
        # place_mask: the table's capacity, a power of two, less 1.
        return compiled_splitmix64(hashed ^ salt) & place_mask

    return place_of
