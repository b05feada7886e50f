"""`chain` as DESIGN.md 5 words it, on Python ints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import (
    CHAIN_ANCHOR_INPUT,
    NO_PREDECESSOR,
    PREDECESSOR_UNREACHABLE,
    RECORD_PREV_HASH,
)
from kvaudit.kernels.hash.reference import slot_hash, splitmix64


def launch_chain(
    canary_records: NDArray[np.uint64],
    slot_indices: NDArray[np.int64],
    prev_slot_indices: NDArray[np.int64],
    duplicate_counter: NDArray[np.int64],
) -> None:
    """The contract of `kvaudit.kernels.chain`."""
    anchor = splitmix64(CHAIN_ANCHOR_INPUT)
    slots_by_hash: dict[int, list[int]] = {}
    for slot in slot_indices.tolist():
        slots_by_hash.setdefault(slot_hash(canary_records, slot), []).append(slot)
    duplicate_counter[0] += slot_indices.shape[0] - len(slots_by_hash)
    for entry, slot in enumerate(slot_indices.tolist()):
        prev_hash = int(canary_records[slot, RECORD_PREV_HASH])
        candidates = slots_by_hash.get(prev_hash, [])
        below = [candidate for candidate in candidates if candidate < slot]
        if prev_hash == anchor:
            prev_slot_indices[entry] = NO_PREDECESSOR
        elif not candidates:
            prev_slot_indices[entry] = PREDECESSOR_UNREACHABLE
        else:
            prev_slot_indices[entry] = max(below) if below else min(candidates)
