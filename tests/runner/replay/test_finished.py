from __future__ import annotations

import numpy as np

from kvaudit.runner.replay.finished import FinishedSequences


def slots(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def held(finished: FinishedSequences) -> dict[str, list[int]]:
    return {name: its_slots.tolist() for name, _, its_slots in finished}


def test_a_sequence_ends_before_the_first_slot_that_is_given_away() -> None:
    finished = FinishedSequences(16)
    finished.add("a", slots(4, 5, 6, 7))
    finished.add("b", slots(4, 5, 9))
    finished.give_away(slots(6, 12))
    assert held(finished) == {"a#1": [4, 5], "b#2": [4, 5, 9]}
    finished.give_away(slots(5))
    assert held(finished) == {"a#1": [4], "b#2": [4]}
    finished.give_away(slots(4))
    assert held(finished) == {}


def test_two_of_one_name_are_two_and_nothing_is_added_of_an_empty_one() -> None:
    finished = FinishedSequences(16)
    finished.add("a", slots(4))
    finished.add("a", slots(5), start=3)
    finished.add("a", slots())
    assert [(name, start) for name, start, _ in finished] == [("a#1", 0), ("a#2", 3)]
    assert list(finished.holders_of(5)) == [("a", 3)]
    assert list(finished.holders_of(6)) == []


def test_a_position_without_a_slot_or_with_a_wild_one_is_nobodys() -> None:
    finished = FinishedSequences(8)
    finished.add("a", slots(0, 3, 99))
    finished.give_away(slots(0))
    assert held(finished) == {"a#1": [0, 3, 99]}
    finished.give_away(slots(3))
    assert held(finished) == {"a#1": [0]}
    assert list(finished.holders_of(99)) == []


def test_all_of_them_can_be_let_go_of() -> None:
    finished = FinishedSequences(8)
    finished.add("a", slots(2, 3))
    finished.clear()
    assert held(finished) == {}
    assert list(finished.holders_of(2)) == []


def test_what_was_added_is_not_what_the_caller_goes_on_changing() -> None:
    finished = FinishedSequences(8)
    given = slots(2, 3)
    finished.add("a", given)
    given[:] = 7
    assert held(finished) == {"a#1": [2, 3]}
