"""What a run's counters and ring say of the canary itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvaudit.constants import LaunchTag
from kvaudit.core.divergence import Divergences


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
class UncountedLaunches:
    """Launches that a trace tells of, and that the engine's own counter does not have.

    Fields:
        tag: the launch.
        counted: what its counter says.
        told: launches of the trace.
    """

    tag: LaunchTag
    counted: int
    told: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryHealth:
    """How well the canary itself ran.

    Fields:
        stalls: in step order.
        uncounted: in tag order.
        violations: what the ring counted.
        ring_capacity: what the ring holds; None where there was none.
        divergences: where a replay of the run parts from what was recorded.
    """

    stalls: Sequence[Stall] = ()
    uncounted: Sequence[UncountedLaunches] = ()
    violations: int = 0
    ring_capacity: int | None = None
    divergences: Divergences = field(default_factory=Divergences)
