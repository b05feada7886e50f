"""Counters that must move, and the false alarms next to them."""

from __future__ import annotations

import pytest

from kvaudit.constants import LaunchTag
from kvaudit.errors import CanaryStalledError
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.health_checker import KernelRunCounterHealthChecker

HEAD, TAIL, TAIL_V = LaunchTag.HEAD_K_FULL, LaunchTag.TAIL_K_FULL, LaunchTag.TAIL_V_FULL
SWEEP = LaunchTag.SWEEP_K_FULL
ALWAYS = frozenset({HEAD, TAIL})


class Run:
    """A run whose launches and their schedule are given step by step."""

    def __init__(
        self,
        *,
        every_n_steps: int = 100,
        warm_up_steps: int = 100,
        state: CanaryDeviceState | None = None,
    ) -> None:
        self.state = state or CanaryDeviceState.allocate(ring_capacity=1, device="cpu")
        self.checker = KernelRunCounterHealthChecker(
            self.state, every_n_steps=every_n_steps, warm_up_steps=warm_up_steps
        )
        self.num_steps = 0

    def steps(
        self, count: int, *, ran: frozenset[LaunchTag] = ALWAYS, due: frozenset[LaunchTag] = ALWAYS
    ) -> None:
        for _ in range(count):
            self.num_steps += 1
            for tag in ran:
                self.state.kernel_run_counter(tag).add_(1)
            self.checker.step(self.num_steps, due)

    def finish(self) -> None:
        self.checker.finish(self.num_steps)


def test_a_run_whose_launches_all_run_is_well_to_its_end() -> None:
    run = Run()
    run.steps(350)
    run.finish()


@pytest.mark.parametrize(("last", "seen_at"), [(100, 200), (149, 300), (200, 300), (201, 400)])
def test_a_tag_that_stops_is_named_by_the_first_check_in_which_it_never_ran(
    last: int, seen_at: int
) -> None:
    """The check's values come a step later: the error names the step they are of."""
    run = Run()
    run.steps(last)
    with pytest.raises(CanaryStalledError) as caught:
        run.steps(1000, ran=frozenset({HEAD}))
    assert caught.value.tags == ("TAIL_K_FULL",)
    assert caught.value.step == seen_at
    assert run.num_steps == seen_at + 1


def test_what_ran_for_a_checker_before_hides_no_stall() -> None:
    before = Run()
    before.steps(5)
    run = Run(state=before.state)
    run.steps(5, ran=frozenset({HEAD}))
    with pytest.raises(CanaryStalledError) as caught:
        run.finish()
    assert caught.value.tags == ("TAIL_K_FULL",)


def test_all_tags_that_stopped_are_named_in_tag_order() -> None:
    run = Run()
    with pytest.raises(CanaryStalledError) as caught:
        run.steps(101, ran=frozenset())
    assert (caught.value.tags, caught.value.step) == (("HEAD_K_FULL", "TAIL_K_FULL"), 100)


@pytest.mark.parametrize("num_steps", [1, 7, 99, 100])
def test_a_run_shorter_than_the_warm_up_is_checked_at_its_end(num_steps: int) -> None:
    run = Run()
    run.steps(num_steps, ran=frozenset({HEAD}))
    with pytest.raises(CanaryStalledError) as caught:
        run.finish()
    assert (caught.value.tags, caught.value.step) == (("TAIL_K_FULL",), num_steps)


def test_what_stops_after_the_last_check_is_seen_at_the_end() -> None:
    run = Run()
    run.steps(250)
    run.steps(49, ran=frozenset({TAIL}))
    run.finish()
    run = Run()
    run.steps(201)
    run.checker.finish(201)
    run.steps(40, ran=frozenset({TAIL}))
    with pytest.raises(CanaryStalledError) as caught:
        run.finish()
    assert (caught.value.tags, caught.value.step) == (("HEAD_K_FULL",), 241)


def test_the_end_of_a_run_without_steps_since_the_last_check_is_no_stall() -> None:
    run = Run()
    run.finish()
    run.steps(200)
    run.finish()
    run.finish()


def test_the_first_check_comes_after_the_warm_up() -> None:
    run = Run(every_n_steps=10, warm_up_steps=25)
    run.steps(29, ran=frozenset())
    with pytest.raises(CanaryStalledError) as caught:
        run.steps(2, ran=frozenset())
    assert caught.value.step == 30


def test_a_sweep_is_missed_only_where_one_was_due() -> None:
    run = Run()
    run.steps(300)
    run.steps(1, due=ALWAYS | {SWEEP})
    run.steps(98)
    with pytest.raises(CanaryStalledError) as caught:
        run.steps(2)
    assert (caught.value.tags, caught.value.step) == (("SWEEP_K_FULL",), 400)


def test_a_sweep_rarer_than_the_checks_is_no_stall() -> None:
    run = Run()
    for _ in range(4):
        run.steps(1, ran=ALWAYS | {SWEEP}, due=ALWAYS | {SWEEP})
        run.steps(249)
    run.finish()


def test_a_v_tag_is_missed_only_once_it_has_ever_run() -> None:
    due = ALWAYS | {TAIL_V}
    run = Run()
    run.steps(300, due=due)
    run.steps(100, ran=due, due=due)
    with pytest.raises(CanaryStalledError) as caught:
        run.steps(101, due=due)
    assert (caught.value.tags, caught.value.step) == (("TAIL_V_FULL",), 500)


def test_an_alarm_is_raised_once_and_the_next_check_judges_anew() -> None:
    run = Run()
    with pytest.raises(CanaryStalledError):
        run.steps(101, ran=frozenset({HEAD}))
    run.steps(150)
    run.finish()


def test_a_period_of_0_checks_nothing_at_all() -> None:
    run = Run(every_n_steps=0)
    run.steps(300, ran=frozenset())
    run.finish()
