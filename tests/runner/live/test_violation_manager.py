"""The ring's rows, each told once."""

from __future__ import annotations

import logging

import pytest
import torch

from kvaudit.constants import FailReason, LaunchTag
from kvaudit.core.launch_tag import PoolKind
from kvaudit.errors import CanaryViolationError
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.violation_manager import (
    Teller,
    ViolationBatch,
    ViolationManager,
    log_violations,
    raise_violations,
)


class Run:
    """A ring that violations are put into as launches do."""

    def __init__(
        self,
        *,
        ring_capacity: int = 8,
        every_n_steps: int = 1,
        tell: Teller | None = None,
        state: CanaryDeviceState | None = None,
    ) -> None:
        self.state = state or CanaryDeviceState.allocate(ring_capacity=ring_capacity, device="cpu")
        self.told: list[ViolationBatch] = []
        self.manager = ViolationManager(
            self.state, every_n_steps=every_n_steps, tell=tell or self.told.append
        )
        self.num_steps = 0

    def violate(self, *slots: int) -> None:
        for slot in slots:
            seq = int(self.state.violation_write_index)
            self.state.violation_write_index.add_(1)
            if seq < self.state.ring_capacity:
                row = [int(LaunchTag.TAIL_K_FULL), slot, 1, 22, -1, 3, 4]
                row.append(int(FailReason.VERIFY_CHAIN_HASH_MISMATCH))
                self.state.violation_ring[seq] = torch.tensor(row)

    def steps(self, count: int, *, plan_fits: bool = True) -> None:
        for _ in range(count):
            self.num_steps += 1
            self.state.enabled_plan_counter(PoolKind.FULL).add_(int(plan_fits))
            self.manager.step(self.num_steps, num_planned=self.num_steps)

    def finish(self) -> None:
        self.manager.finish(self.num_steps, num_planned=self.num_steps)

    @property
    def told_slots(self) -> list[list[int]]:
        return [[row.slot for row in batch.rows] for batch in self.told]

    @property
    def all_told_slots(self) -> list[int]:
        return [row.slot for batch in self.told for row in batch.rows]


def test_rows_are_told_once_and_in_ring_order() -> None:
    run = Run()
    run.steps(3)
    run.violate(5, 6)
    run.steps(3)
    run.violate(7)
    run.steps(5)
    run.finish()
    assert run.told_slots == [[5, 6], [7]]
    assert [batch.total for batch in run.told] == [2, 3]


def test_rows_come_within_two_steps_of_the_violation_and_name_the_step_they_were_read() -> None:
    run = Run()
    run.steps(3)
    run.violate(5)
    run.steps(2)
    assert not run.told
    run.steps(1)
    assert run.told_slots == [[5]]
    assert run.told[0].step == 5


def test_the_ring_is_looked_at_every_so_many_steps_and_at_the_end() -> None:
    run = Run(every_n_steps=8)
    run.violate(5)
    run.steps(9)
    assert not run.told
    run.steps(1)
    assert (run.told_slots, run.told[0].step) == ([[5]], 9)
    run.violate(6)
    run.steps(7)
    run.finish()
    assert run.told_slots == [[5], [6]]


@pytest.mark.parametrize("steps_after", [0, 1, 2])
def test_the_end_tells_what_is_on_its_way_and_what_was_never_asked_for(steps_after: int) -> None:
    run = Run()
    run.steps(1)
    run.violate(5, 6)
    run.steps(steps_after)
    run.violate(7)
    run.finish()
    assert sorted(run.all_told_slots) == [5, 6, 7]


def test_violations_in_every_step_are_all_told() -> None:
    run = Run(ring_capacity=100)
    for slot in range(1, 61):
        run.violate(slot)
        run.steps(1)
    run.finish()
    assert run.all_told_slots == list(range(1, 61))


def test_a_full_ring_is_said_once_and_its_rows_are_told(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(ring_capacity=4)
    run.violate(1, 2, 3, 4)
    run.steps(4)
    assert not caplog.records
    run.violate(5, 6)
    run.steps(4)
    run.violate(7)
    run.steps(4)
    run.finish()
    assert run.all_told_slots == [1, 2, 3, 4]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "ring is full (total=6, capacity=4)" in record.getMessage()


def test_an_overflow_is_part_of_the_text_of_rows_told_with_it() -> None:
    run = Run(ring_capacity=2)
    run.violate(1, 2, 3)
    run.finish()
    (batch,) = run.told
    assert len(batch.texts()) == 2
    assert all(
        text.endswith("total_violations=3 ring_overflow=True step_when_pumped=0")
        for text in batch.texts()
    )


def test_a_plan_that_did_not_fit_is_warned_of_when_it_happens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run()
    run.steps(5)
    run.steps(1, plan_fits=False)
    run.steps(3)
    assert len(caplog.records) == 1
    assert "(1 of 6 plans so far) at step=6" in caplog.records[0].getMessage()
    run.steps(1, plan_fits=False)
    run.finish()
    assert "(2 of 10 plans so far)" in caplog.records[-1].getMessage()


def test_mode_log_writes_a_warning_of_seven_lines_for_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run(tell=log_violations)
    run.violate(5, 6)
    run.steps(3)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert [len(record.getMessage().splitlines()) for record in caplog.records] == [7, 7]
    assert "slot_idx=5 position=1 stored_token=22" in caplog.records[0].getMessage()


def test_mode_raise_raises_all_that_are_new_at_once_and_none_again() -> None:
    run = Run(tell=raise_violations)
    run.violate(5, 6)
    run.steps(2)
    with pytest.raises(CanaryViolationError) as caught:
        run.steps(1)
    assert str(caught.value).count("kv_canary violation: ") == 2
    run.violate(7)
    run.steps(2)
    with pytest.raises(CanaryViolationError) as caught:
        run.steps(1)
    assert str(caught.value).count("kv_canary violation: ") == 1
    run.finish()


def test_plans_that_fitted_for_a_manager_before_hide_none_that_does_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = Run()
    before.steps(5)
    run = Run(state=before.state)
    run.steps(2)
    run.steps(1, plan_fits=False)
    run.finish()
    assert "(1 of 3 plans so far)" in caplog.text
