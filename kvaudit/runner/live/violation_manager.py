"""Brings the ring's rows to whoever is to know of them, each once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvaudit.core.log_line import violation_text
from kvaudit.core.ring_row import RingRow
from kvaudit.errors import CanaryViolationError
from kvaudit.runner.live.delayed_handler import DelayedDeviceHostHandler, DeliveredCopy
from kvaudit.runner.live.device_state import CanaryDeviceState, CounterSample

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationBatch:
    """Rows that are new since the last batch.

    Fields:
        rows: in ring order.
        total: violations counted so far, with or without a row.
        ring_capacity: rows that the ring can hold.
        step: the step at which the ring was read; later than the faulty ones.
    """

    rows: Sequence[RingRow]
    total: int
    ring_capacity: int
    step: int

    def texts(self) -> list[str]:
        """The frozen text of each row."""
        overflow = self.total > self.ring_capacity
        return [
            violation_text(row, total=self.total, ring_overflow=overflow, step=self.step)
            for row in self.rows
        ]


Teller = Callable[[ViolationBatch], None]


def log_violations(batch: ViolationBatch) -> None:
    """Mode `log`: a warning of seven lines for each."""
    for text in batch.texts():
        _LOGGER.warning("%s", text)


def raise_violations(batch: ViolationBatch) -> None:
    """Mode `raise`: one error for all of them.

    Raises:
        CanaryViolationError: always.
    """
    raise CanaryViolationError("\n".join(batch.texts()), step=batch.step)


class ViolationManager:
    """Watches the ring's write index, and reads the ring where it has moved.

    A look asks for the counters alone; rows follow a step or more later. None of it waits. A full
    ring and plans that did not fit their buffers are warned of, since they are what the canary did
    not look at.

    Args:
        state: the ring and its counters.
        every_n_steps: steps between two looks, at least 1.
        tell: gets each row once.
    """

    def __init__(self, state: CanaryDeviceState, *, every_n_steps: int, tell: Teller) -> None:
        self._state = state
        self._every_n_steps = every_n_steps
        self._tell = tell
        self._counters = DelayedDeviceHostHandler(state.words)
        self._rings = DelayedDeviceHostHandler(state.violation_ring)
        self._total = 0
        self._total_at_staging = 0
        self._num_told = 0
        # A state may have counted for another manager before.
        self._num_enabled_before = int(state.enabled_plans.sum())
        self._num_disabled = 0
        self._num_planned_at_staging = 0

    def step(self, step: int, *, num_planned: int) -> None:
        """Tell what has arrived, and look again in its turn.

        Args:
            step: steps done, this one included.
            num_planned: plans made so far, of all pools.

        Raises:
            CanaryViolationError: mode raise.
            DeviceFailed: the device reported an error.
        """
        is_turn = step % self._every_n_steps == 0
        self._note(self._counters.step(self._state.words if is_turn else None, step=step))
        if is_turn and self._counters.staged_step == step:
            self._num_planned_at_staging = num_planned
        batch = self._batch_of(self._rings.step(None, step=step))
        self._stage_rows(step)
        # Last: telling may raise.
        if batch is not None:
            self._tell(batch)

    def finish(self, step: int, *, num_planned: int) -> None:
        """Wait for the device, and tell what is left.

        Args:
            step: steps done.
            num_planned: plans made, of all pools.

        Raises:
            CanaryViolationError: mode raise.
            DeviceFailed: the device reported an error.
        """
        self._note(self._counters.flush())
        self._counters.step(self._state.words, step=step)
        self._num_planned_at_staging = num_planned
        self._note(self._counters.flush())
        # A copy that is pending lacks the last rows: one that has them all takes its place.
        self._rings.flush()
        self._stage_rows(step)
        batch = self._batch_of(self._rings.flush())
        if batch is not None:
            self._tell(batch)

    @property
    def _num_stored(self) -> int:
        """Rows of the ring that are known of."""
        return min(self._total, self._state.ring_capacity)

    def _note(self, arrived: DeliveredCopy | None) -> None:
        if arrived is None:
            return
        sample = CounterSample.of(arrived.values, step=arrived.step)
        capacity = self._state.ring_capacity
        if sample.violations > capacity >= self._total:
            _LOGGER.warning(
                "kv-canary: the violation ring is full (total=%d, capacity=%d) at step=%d: later "
                "violations are counted, and their rows are lost",
                sample.violations,
                capacity,
                sample.step,
            )
        self._total = sample.violations
        num_enabled = sum(sample.enabled_plans.values()) - self._num_enabled_before
        num_disabled = self._num_planned_at_staging - num_enabled
        if num_disabled > self._num_disabled:
            _LOGGER.warning(
                "kv-canary: a plan did not fit its buffers and nothing of it was verified "
                "(%d of %d plans so far) at step=%d: allocate a larger verify_capacity",
                num_disabled,
                self._num_planned_at_staging,
                sample.step,
            )
        self._num_disabled = num_disabled

    def _stage_rows(self, step: int) -> None:
        """Ask for the ring where it holds rows that nobody was told of."""
        if self._num_stored > self._num_told and self._rings.staged_step is None:
            self._rings.step(self._state.violation_ring, step=step)
            self._total_at_staging = self._total

    def _batch_of(self, ring: DeliveredCopy | None) -> ViolationBatch | None:
        """The rows of a copy that are new."""
        if ring is None:
            return None
        capacity = self._state.ring_capacity
        rows = ring.values[self._num_told : min(self._total_at_staging, capacity)].tolist()
        self._num_told += len(rows)
        return ViolationBatch(
            rows=[RingRow.of(row) for row in rows],
            total=self._total_at_staging,
            ring_capacity=capacity,
            step=ring.step,
        )
