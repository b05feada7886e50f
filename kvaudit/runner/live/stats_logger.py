"""The periodic line of statistics."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kvaudit.constants import LaunchTag
from kvaudit.runner.live.delayed_handler import DelayedDeviceHostHandler, DeliveredCopy
from kvaudit.runner.live.device_state import CanaryDeviceState, CounterSample

_LOGGER = logging.getLogger(__name__)


class PeriodicCanaryStatsLogger:
    """Logs at INFO what a canary has done so far, every so many steps.

    protected_tokens are the entries that launches verified or stamped, over all tags;
    launch_tags_active are the tags that have run, of those attached. The line's figures are those
    of its step, however late it is printed. It only observes: nothing depends on it.

    Args:
        state: the counters.
        every_n_steps: steps between two lines; 0 = none.
        tags: the launch tags that are attached.
    """

    def __init__(
        self, state: CanaryDeviceState, *, every_n_steps: int, tags: Sequence[LaunchTag]
    ) -> None:
        self._state = state
        self._every_n_steps = every_n_steps
        self._tags = tuple(tags)
        self._handler = DelayedDeviceHostHandler(state.words)
        self._sweep_passes_at_staging = 0

    def step(self, step: int, *, sweep_passes: int) -> None:
        """Print a line that has arrived, and stage one in its turn.

        Args:
            step: steps done, this one included.
            sweep_passes: whole sweeps so far.

        Raises:
            DeviceFailed: the device reported an error.
        """
        if not self._every_n_steps:
            return
        is_turn = step % self._every_n_steps == 0
        arrived = self._handler.step(self._state.words if is_turn else None, step=step)
        if arrived is not None:
            self._print(arrived)
        if is_turn and self._handler.staged_step == step:
            self._sweep_passes_at_staging = sweep_passes

    def finish(self) -> None:
        """Wait for a line whose turn has come, and print it.

        Raises:
            DeviceFailed: the device reported an error.
        """
        last = self._handler.flush()
        if last is not None:
            self._print(last)

    def _print(self, arrived: DeliveredCopy) -> None:
        sample = CounterSample.of(arrived.values, step=arrived.step)
        _LOGGER.info(
            "[canary] step=%d protected_tokens=%d sweep_passes=%d violations=%d "
            "launch_tags_active=%d/%d",
            sample.step,
            sum(sample.slot_runs),
            self._sweep_passes_at_staging,
            sample.violations,
            sum(sample.kernel_runs[tag] > 0 for tag in self._tags),
            len(self._tags),
        )
