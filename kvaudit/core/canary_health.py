"""What a run's counters and ring say of the canary itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvaudit.constants import LaunchTag


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A check that saw counters stand still.

    Fields:
        tags: launches that were due since the previous check and did not run, in tag order.
        step: the step of the check.
    """

    tags: Sequence[LaunchTag]
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryHealth:
    """How well the canary itself ran.

    Fields:
        stalls: in step order.
        violations: what the ring counted.
        ring_capacity: what the ring holds; None where there was none.
    """

    stalls: Sequence[Stall] = ()
    violations: int = 0
    ring_capacity: int | None = None
