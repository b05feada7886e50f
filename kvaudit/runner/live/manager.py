"""The canary beside an engine: what it runs in a step, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.launch_tag import LaunchPhase, phase_of
from kvaudit.errors import ConfigError
from kvaudit.runner.live.batch_buffers import BatchBuffers
from kvaudit.runner.live.config import CanaryConfig, CanaryMode
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.flight_recorder import FlightRecorder, teller_of
from kvaudit.runner.live.health_checker import KernelRunCounterHealthChecker
from kvaudit.runner.live.pool import CanaryPool
from kvaudit.runner.live.stats_logger import PeriodicCanaryStatsLogger
from kvaudit.runner.live.step_inputs import CanaryBatch, PlannedStep
from kvaudit.runner.live.step_launcher import StepLauncher
from kvaudit.runner.live.sweep_orchestrator import CachedPrefixes, SweepOrchestrator
from kvaudit.runner.live.violation_manager import Teller, ViolationManager

# What a step does, in this order; verify and write come launch by launch. The forward is the
# engine's: the canary runs before and after it.
STEP_ORDER: Final = (
    "plan",
    "head verify",
    "head write",
    "forward",
    "tail verify",
    "tail write",
    "sweep",
    "step += 1",
    "violations",
    "dump",
    "health",
    "statistics",
)


class CanaryManager:
    """Steps a canary: live beside an engine, or over recorded steps.

        with CanaryManager(config, state=state, pools=[pool]) as canary:
            for batch in batches:
                canary.begin_step(batch)
                forward(batch)
                canary.end_step()

    A step is what STEP_ORDER says. Nothing in it waits for the device, but for a dump. Leaving the
    block waits, tells what is left and checks the counters a last time. In mode `none` all methods
    return at once.

    Args:
        config: how it runs.
        state: the ring and the counters.
        pools: what it watches, one of a kind.
        cached_prefixes: what the engine caches, for the sweeps; None without sweeps.
        flight_recorder: mode `dump` alone.
        tell: who is told of violations; None = as the mode says. Mode `dump` tells its recorder.

    Raises:
        ConfigError: a part that the configuration needs is missing, or given and not used.
    """

    def __init__(
        self,
        config: CanaryConfig,
        *,
        state: CanaryDeviceState,
        pools: Sequence[CanaryPool],
        cached_prefixes: CachedPrefixes | None = None,
        flight_recorder: FlightRecorder | None = None,
        tell: Teller | None = None,
    ) -> None:
        self._config = config
        self._state = state
        self._pools = tuple(pools)
        self._launcher = StepLauncher(pools, state=state)
        self._buffers = _buffers_of(config, pools=pools, state=state)
        self._recorder = flight_recorder
        self._sweep = _sweep_of(config, pools=pools, cached_prefixes=cached_prefixes)
        self._violations = ViolationManager(
            state,
            every_n_steps=config.violation_check_every_n_steps,
            tell=teller_of(config.mode, recorder=flight_recorder, tell=tell),
        )
        self._health = KernelRunCounterHealthChecker(
            state,
            every_n_steps=config.health_check_every_n_steps,
            warm_up_steps=config.health_check_warm_up_steps,
        )
        self._tags = _attached_tags(pools, sweeps=self._sweep is not None)
        self._statistics = PeriodicCanaryStatsLogger(
            state, every_n_steps=config.stats_print_every_n_steps, tags=self._tags
        )
        self._step = 0
        self._batch: CanaryBatch | None = None

    @property
    def step(self) -> int:
        """Steps done."""
        return self._step

    @property
    def sweep_passes(self) -> int:
        """Whole sweeps done."""
        return 0 if self._sweep is None else self._sweep.passes

    def read_state(self) -> CanaryState:
        """The ring and the counters of now; waits for the device."""
        return self._state.read(tags=self._tags, sweep_passes=self.sweep_passes)

    def begin_step(self, batch: CanaryBatch) -> None:
        """Plan a batch and launch what comes before its forward.

        A step that does not end, since its forward failed, is not counted.

        Raises:
            ValueError: a tensor of the batch cannot be used; the message names it.
        """
        if self._is_off:
            return
        self._batch = batch
        inputs = batch if self._buffers is None else self._buffers.loaded(batch)
        self._launcher.launch_head(
            [pool.planned(inputs, config=self._config) for pool in self._pools]
        )

    def begin_planned_step(self, planned: Sequence[PlannedStep]) -> None:
        """Launch what comes before the forward of a step that is planned already.

        Args:
            planned: its launches. A pool may occur several times, where its launches differ; one
                that does not occur has nothing due.
        """
        if not self._is_off:
            self._batch = None
            self._launcher.launch_head(planned)

    def end_step(self) -> None:
        """Launch what comes after the forward, then observe.

        Raises:
            CanaryViolationError: mode raise: violations of an earlier step.
            CanaryStalledError: a launch that was due did not run.
            DeviceFailed: the device reported an error.
        """
        if self._is_off:
            return
        due = self._launcher.launch_tail()
        if self._sweep is not None:
            due.update(self._sweep.step(self._step + 1))
        self._step += 1
        # An alarm of one leaves the others their step.
        try:
            self._violations.step(self._step, num_planned=self._launcher.num_plans)
            self._dump()
        finally:
            try:
                self._health.step(self._step, due)
            finally:
                self._statistics.step(self._step, sweep_passes=self.sweep_passes)

    def finish(self) -> None:
        """Wait for the device, tell what is left, and check the counters a last time.

        Raises:
            CanaryViolationError: mode raise: violations that were not raised yet.
            CanaryStalledError: a launch that was due did not run, however short the run.
            DeviceFailed: the device reported an error.
        """
        if self._is_off:
            return
        self._launcher.finish(self._step)
        try:
            self._violations.finish(self._step, num_planned=self._launcher.num_plans)
            self._dump()
        finally:
            try:
                self._health.finish(self._step)
            finally:
                self._statistics.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()

    @property
    def _is_off(self) -> bool:
        return self._config.mode is CanaryMode.NONE

    def _dump(self) -> None:
        if self._recorder is not None:
            self._recorder.step(self._step, batch=self._batch, pools=self._pools)


def _attached_tags(pools: Sequence[CanaryPool], *, sweeps: bool) -> list[LaunchTag]:
    """The tags that can run, ascending: those of sweeps only where there are any."""
    return sorted(
        endpoint.tag
        for pool in pools
        for endpoint in pool.endpoints
        if sweeps or phase_of(endpoint.tag) is not LaunchPhase.SWEEP
    )


def _buffers_of(
    config: CanaryConfig, *, pools: Sequence[CanaryPool], state: CanaryDeviceState
) -> BatchBuffers | None:
    if not config.max_prepared_tokens or not pools:
        return None
    return BatchBuffers(
        max_requests=min(pool.geometry.write_req_capacity for pool in pools),
        max_tokens=config.max_prepared_tokens,
        device=state.device,
    )


def _sweep_of(
    config: CanaryConfig,
    *,
    pools: Sequence[CanaryPool],
    cached_prefixes: CachedPrefixes | None,
) -> SweepOrchestrator | None:
    if not config.sweep_interval:
        return None
    if cached_prefixes is None:
        raise ConfigError(
            f"sweep_interval is {config.sweep_interval}, but there are no cached_prefixes",
            hint="say what the engine caches, or set sweep_interval to 0",
        )
    return SweepOrchestrator(pools, cached_prefixes=cached_prefixes, config=config)
