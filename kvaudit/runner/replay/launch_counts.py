"""What a replay's launches were to check, and what they checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_health import UncountedLaunches
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.launch_tag import KvHalf, half_of
from kvaudit.core.plan import PlannedLaunch
from kvaudit.core.recorded_step import RecordedStep
from kvaudit.runner.replay.replayed_pool import ReplayedPool
from kvaudit.runner.replay.slot_mask import SlotMask
from kvaudit.runner.replay.step_plans import StepPlans

_ONE = np.zeros(1, dtype=np.int64)


class LaunchCounts:
    """Entries by launch tag, over all steps.

    A V tag that never runs is not held to anything: engines attach V buffers that they do not stamp.

    Args:
        pool: the replay's side.

    Fields:
        disabled: the recorded plans that were disabled, without their entries.
    """

    def __init__(self, pool: ReplayedPool) -> None:
        num_slots = pool.canary.num_slots
        self._pool = pool
        self._planned: Counter[LaunchTag] = Counter()
        self._padding: Counter[LaunchTag] = Counter()
        self._verified: Counter[LaunchTag] = Counter()
        self._writes: Counter[LaunchTag] = Counter()
        self.disabled: list[PlannedLaunch] = []
        self._checked_slots = SlotMask(num_slots, device=pool.canary.device)
        self._unchecked_slots = SlotMask(num_slots, device=pool.canary.device)

    def step(self, recorded: RecordedStep, plans: StepPlans) -> None:
        """Count what a row launched."""
        due = self._pool.canary.forward_tags
        ran = due if plans.tags is None else [tag for tag in plans.tags if tag in due]
        if recorded.write is not None:
            self._writes.update(ran)
        if plans.verify_plan is None:
            return
        verify = recorded.verify
        if verify is not None and not verify.plan.enable:
            # What stands in its lists is an earlier plan's.
            self._planned.update(dict.fromkeys(due, max(1, plans.num_entries)))
            self.disabled.append(_without_entries(verify))
            return
        mask = self._checked_slots if ran else self._unchecked_slots
        padding = mask.mark(plans.verify_plan.verify_slot_indices[: plans.num_entries])
        for tag in due:
            self._planned[tag] += plans.num_entries
            self._padding[tag] += padding
        for tag in ran:
            self._verified[tag] += plans.num_entries - padding

    @property
    def checked_slots(self) -> NDArray[np.bool_]:
        """Slots that a launch verified, shape [num_slots], bool."""
        return self._checked_slots.read()

    @property
    def planned_slots(self) -> NDArray[np.bool_]:
        """Slots that one was to verify, shape [num_slots], bool."""
        return self._checked_slots.read() | self._unchecked_slots.read()

    @property
    def planned(self) -> int:
        """Entries that were due, over all tags."""
        return sum(self._planned.values())

    @property
    def padding(self) -> int:
        """Those of slot 0."""
        return sum(self._padding[tag] for tag in self._judged)

    @property
    def unstamped(self) -> int:
        """Those of V tags that never ran."""
        return sum(count for tag, count in self._planned.items() if tag not in self._judged)

    @property
    def verified(self) -> int:
        """Those that were verified, without padding."""
        return sum(self._verified.values())

    def verified_by(self, tag: LaunchTag) -> int:
        """Those that a tag verified."""
        return self._verified[tag]

    def uncounted(self, state: CanaryState) -> Sequence[UncountedLaunches]:
        """Tags whose counter says less than the trace tells of.

        A counter may say more: it counts checks too, and what ran before the trace began.
        """
        return [
            UncountedLaunches(tag=tag, counted=state.kernel_run_counters[tag], told=told)
            for tag, told in sorted(self._writes.items())
            if tag in state.kernel_run_counters
            and state.kernel_run_counters[tag] < told
            and (half_of(tag) is KvHalf.K or state.kernel_run_counters[tag])
        ]

    @property
    def _judged(self) -> set[LaunchTag]:
        return {
            tag
            for tag in self._planned
            if half_of(tag) is KvHalf.K or self._verified[tag] or self._writes[tag]
        }


def _without_entries(launch: PlannedLaunch) -> PlannedLaunch:
    """A launch whose lists take no memory, however long they are."""
    nothing = np.broadcast_to(_ONE, launch.plan.capacity)
    plan = replace(
        launch.plan,
        verify_slot_indices=nothing,
        verify_expected_tokens=nothing,
        verify_expected_positions=nothing,
        verify_prev_slot_indices=nothing,
    )
    return replace(launch, plan=plan, request_ids=None)
