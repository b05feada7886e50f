"""Calls that run at once give their results in order, and stop at the first that fails."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from kvaudit.runner.in_order import in_order

AT_ONCE = pytest.mark.parametrize("max_at_once", [1, 2, 5])
PATIENCE_S = 30


@AT_ONCE
@pytest.mark.parametrize("num_calls", [0, 1, 2, 40])
def test_results_come_in_the_order_of_the_calls(max_at_once: int, num_calls: int) -> None:
    calls = (partial(str, number) for number in range(num_calls))
    results = list(in_order(calls, max_at_once=max_at_once))
    assert results == [str(number) for number in range(num_calls)]


def test_a_call_that_ends_last_is_still_the_first() -> None:
    second_ended = threading.Event()

    def first() -> str:
        assert second_ended.wait(PATIENCE_S)
        return "first"

    def second() -> str:
        second_ended.set()
        return "second"

    assert list(in_order([first, second], max_at_once=2)) == ["first", "second"]


def test_one_at_a_time_runs_on_the_consumers_thread_when_its_result_is_asked_for() -> None:
    begun: list[int] = []

    def call(number: int) -> int:
        begun.append(number)
        return threading.get_ident()

    results = in_order((partial(call, number) for number in range(3)), max_at_once=1)
    assert next(results) == threading.get_ident()
    assert begun == [0]


@AT_ONCE
def test_few_results_wait_for_a_slow_consumer(max_at_once: int) -> None:
    begun: list[int] = []
    results = in_order(
        (partial(begun.append, number) for number in range(50)), max_at_once=max_at_once
    )
    for num_taken, _ in enumerate(results, 1):
        assert len(begun) <= num_taken + max_at_once


@AT_ONCE
def test_the_first_failure_in_order_is_raised_and_ends_it(max_at_once: int) -> None:
    begun: list[int] = []

    def call(number: int) -> int:
        begun.append(number)
        if number in (3, 4):
            raise ValueError(number)
        return number

    taken: list[int] = []
    with pytest.raises(ValueError, match="3"):
        taken.extend(in_order((partial(call, n) for n in range(1000)), max_at_once=max_at_once))
    assert taken == [0, 1, 2]
    assert max(begun) <= 3 + max_at_once


@AT_ONCE
def test_what_fails_to_make_a_call_is_raised(max_at_once: int) -> None:
    def calls():
        yield lambda: 0
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        list(in_order(calls(), max_at_once=max_at_once))


def test_a_consumer_that_leaves_waits_for_what_has_begun_and_begins_nothing_more() -> None:
    begun: list[int] = []
    results = in_order((partial(begun.append, n) for n in range(1000)), max_at_once=2)
    next(results)
    results.close()
    num_begun = len(begun)
    assert num_begun <= 1 + 2
    assert not [t for t in threading.enumerate() if t.name.startswith("kvaudit-calls")]
