"""The watchdog: launches that are due must run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvaudit.constants import LaunchTag
from kvaudit.core.launch_tag import KvHalf, half_of
from kvaudit.errors import CanaryStalledError
from kvaudit.runner.live.delayed_handler import DelayedDeviceHostHandler, DeliveredCopy
from kvaudit.runner.live.device_state import CanaryDeviceState, CounterSample


class KernelRunCounterHealthChecker:
    """Compares what was due since the last check with the counters that launches move.

    What is due is said by the schedule, never by the launches themselves. A V tag is held to it
    once it has ever run: engines attach V buffers that they do not stamp. It only observes: nothing
    depends on it but the error.

    Args:
        state: the counters.
        every_n_steps: steps between two checks; 0 = none, not even at the end.
        warm_up_steps: steps before the first of them; `finish` checks a shorter run.
    """

    def __init__(self, state: CanaryDeviceState, *, every_n_steps: int, warm_up_steps: int) -> None:
        self._state = state
        self._every_n_steps = every_n_steps
        self._warm_up_steps = warm_up_steps
        self._handler = DelayedDeviceHostHandler(state.words)
        self._due: set[LaunchTag] = set()
        self._due_at_staging: frozenset[LaunchTag] = frozenset()
        # A state may have counted for another manager before.
        self._kernel_runs: Sequence[int] = state.kernel_run_counters.tolist()

    def step(self, step: int, due: Iterable[LaunchTag]) -> None:
        """Note what was due in a step, judge a check that has arrived, and stage one in its turn.

        Args:
            step: steps done, this one included.
            due: the launches that this step had to run.

        Raises:
            CanaryStalledError: an earlier check saw a counter that did not move.
            DeviceFailed: the device reported an error.
        """
        if not self._every_n_steps:
            return
        self._due.update(due)
        is_turn = step >= self._warm_up_steps and step % self._every_n_steps == 0
        arrived = self._handler.step(self._state.words if is_turn else None, step=step)
        due_then = self._due_at_staging
        if is_turn and self._handler.staged_step == step:
            self._due_at_staging, self._due = frozenset(self._due), set()
        if arrived is not None:
            self._judge(arrived, due_then)

    def finish(self, step: int) -> None:
        """Wait for the last check, and check what was due after it.

        Args:
            step: steps done.

        Raises:
            CanaryStalledError: a counter did not move.
            DeviceFailed: the device reported an error.
        """
        last = self._handler.flush()
        if last is not None:
            self._judge(last, self._due_at_staging)
        if self._every_n_steps and self._due:
            due, self._due = frozenset(self._due), set()
            self._handler.step(self._state.words, step=step)
            arrived = self._handler.flush()
            if arrived is not None:
                self._judge(arrived, due)

    def _judge(self, arrived: DeliveredCopy, due: Iterable[LaunchTag]) -> None:
        sample = CounterSample.of(arrived.values, step=arrived.step)
        stalled = [
            tag.name
            for tag in sorted(due)
            if sample.kernel_runs[tag] == self._kernel_runs[tag]
            and (half_of(tag) is KvHalf.K or sample.kernel_runs[tag])
        ]
        self._kernel_runs = sample.kernel_runs
        if stalled:
            raise CanaryStalledError(stalled, step=sample.step)
