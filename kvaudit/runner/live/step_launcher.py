"""The head and tail launches of a step, and which of them were due."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kvaudit.constants import LaunchTag
from kvaudit.core.launch_tag import LaunchPhase, PoolKind
from kvaudit.errors import ConfigError
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.pool import CanaryPool
from kvaudit.runner.live.step_inputs import PlannedStep

_LOGGER = logging.getLogger(__name__)
_FORWARD_PHASES = (LaunchPhase.HEAD, LaunchPhase.TAIL)


class StepLauncher:
    """Launches planned steps over the pools, the head's before the forward, the tail's after it.

    Args:
        pools: one of a kind.
        state: where plans that fit are counted, and what the pools were allocated with.

    Raises:
        ConfigError: two pools are of one kind, or one reports to another state, which nobody reads.
    """

    def __init__(self, pools: Sequence[CanaryPool], *, state: CanaryDeviceState) -> None:
        kinds = [pool.geometry.pool_kind for pool in pools]
        if len(set(kinds)) != len(kinds):
            raise ConfigError(
                "pools: two of one kind share its launch tags",
                hint="give each group, such as target and draft, a manager of its own",
            )
        for pool in pools:
            if any(
                endpoint.context.violation_ring is not state.violation_ring
                for endpoint in pool.endpoints
            ):
                raise ConfigError(
                    f"pools: the {pool.geometry.pool_kind} pool was allocated with another state",
                    hint="allocate pool and manager with one CanaryDeviceState",
                )
        self._endpoints = {
            (pool.geometry.pool_kind, phase): pool.endpoints_of(phase)
            for pool in pools
            for phase in _FORWARD_PHASES
        }
        self._tags = {
            kind: frozenset(
                endpoint.tag
                for phase in _FORWARD_PHASES
                for endpoint in self._endpoints[kind, phase]
            )
            for kind in kinds
        }
        self._enabled_plans = {kind: state.enabled_plan_counter(kind) for kind in PoolKind}
        self._planned: Sequence[PlannedStep] = ()
        self._num_begun = 0
        self.num_plans = 0

    def launch_head(self, planned: Sequence[PlannedStep]) -> None:
        """Take a step, and launch what comes before its forward."""
        self._planned = planned
        self._num_begun += 1
        for step in planned:
            if step.verify_plan is not None:
                # Counted on the device: whether a plan fitted is known there alone.
                self._enabled_plans[step.pool_kind].add_(step.verify_plan.enable)
                self.num_plans += 1
        self._launch(LaunchPhase.HEAD)

    def launch_tail(self) -> set[LaunchTag]:
        """Launch what comes after the forward, and end the step.

        Returns:
            what the step had to launch, whether or not it did.
        """
        self._launch(LaunchPhase.TAIL)
        due: set[LaunchTag] = set()
        for step in self._planned:
            due |= self._tags[step.pool_kind]
        self._planned = ()
        return due

    def finish(self, num_ended: int) -> None:
        """Warn of a run whose steps were never begun, or never ended: little of it was watched.

        Args:
            num_ended: steps that ended.
        """
        if bool(self._num_begun) is not bool(num_ended):
            _LOGGER.warning(
                "kv-canary: %d steps were begun and %d ended: call begin_step before each forward and "
                "end_step after it",
                self._num_begun,
                num_ended,
            )

    def _launch(self, phase: LaunchPhase) -> None:
        for step in self._planned:
            for endpoint in self._endpoints[step.pool_kind, phase]:
                if step.tags is None or endpoint.tag in step.tags:
                    endpoint.launch(step)
