"""What a canary counted and found, read off its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import VIOLATION_FIELDS, LaunchTag
from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import ValuesInvalid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryState:
    """The violation ring and the counters at one moment.

    The ring fills once and never wraps: its rows are the first violations, and the write index
    goes on counting past its capacity.

    Fields:
        path: the file as the user wrote it; "" in memory.
        key: the pairing key.
        ring: the rows that were stored, shape [min(violation_write_index, ring_capacity), 8],
            int64; constants.VIOLATION_TAG and the next seven name the columns.
        violation_write_index: violations in all.
        ring_capacity: rows that the ring can hold.
        kernel_run_counters: launches by tag.
        slot_run_counters: entries by tag.
        active_tags: the tags that the canary launches, ascending.
        sweep_passes: whole sweeps by tag.
    """

    path: str = ""
    key: PoolKey = PoolKey()
    ring: NDArray[np.int64]
    violation_write_index: int
    ring_capacity: int
    kernel_run_counters: Mapping[LaunchTag, int]
    slot_run_counters: Mapping[LaunchTag, int]
    active_tags: tuple[LaunchTag, ...]
    sweep_passes: Mapping[LaunchTag, int]

    def __post_init__(self) -> None:
        if self.ring.shape[1:] != (VIOLATION_FIELDS,):
            raise ValuesInvalid(f"a ring of shape {list(self.ring.shape)}, not [n, 8]")
        stored = min(self.violation_write_index, self.ring_capacity)
        if len(self.ring) != stored:
            raise ValuesInvalid(
                f"{len(self.ring)} rows, but a ring of {self.ring_capacity} holds {stored} of "
                f"{self.violation_write_index} violations",
                path=self.path or None,
                hint="dump the first min(violation_write_index, ring_capacity) rows",
            )

    @property
    def is_overflown(self) -> bool:
        """Whether violations were counted that the ring had no room for."""
        return self.violation_write_index > self.ring_capacity

    @property
    def tags(self) -> tuple[LaunchTag, ...]:
        """Every tag that something is said of, ascending."""
        counted = {*self.kernel_run_counters, *self.slot_run_counters, *self.sweep_passes}
        return tuple(sorted({*self.active_tags, *counted}))
