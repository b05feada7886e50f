from __future__ import annotations

import numpy as np
import pytest

from kvaudit.runner.replay.slot_history import SlotHistory

NONE_BAD = np.empty(0, dtype=np.int64)


def slots(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


@pytest.fixture
def history() -> SlotHistory:
    known = {"k.tail": np.zeros(8, dtype=np.bool_), "v.tail": np.ones(8, dtype=np.bool_)}
    return SlotHistory(8, start_step=100, known=known)


def test_a_difference_is_younger_than_the_last_look_and_the_last_write(
    history: SlotHistory,
) -> None:
    history.see(slots(2, 3), step=100, bad=NONE_BAD)
    assert history.first_step_of(2) == 101
    history.write(slots(3), step=120, buffers=frozenset())
    assert history.first_step_of(3) == 120
    history.see(slots(2, 3), step=150, bad=NONE_BAD)
    assert (history.first_step_of(2), history.first_step_of(3)) == (151, 151)


def test_a_slot_that_was_never_looked_at_may_differ_since_the_start(history: SlotHistory) -> None:
    assert history.first_step_of(5) == 100


def test_a_bad_slot_is_no_news_until_it_is_written_or_copied_over(history: SlotHistory) -> None:
    history.see(slots(2, 3, 4), step=110, bad=slots(2, 3, 4))
    assert history.is_news(slots(2, 5)).tolist() == [False, True]
    history.write(slots(2), step=111, buffers=frozenset())
    history.copy(slots(5), slots(3), step=112)
    assert history.is_news(slots(2, 3, 4)).tolist() == [True, True, False]
    # What is copied from a bad slot is bad as well.
    history.copy(slots(4), slots(6), step=113)
    assert history.is_news(slots(6)).tolist() == [False]


def test_a_bad_slot_is_not_seen_to_be_good(history: SlotHistory) -> None:
    history.see(slots(2), step=110, bad=slots(2))
    history.see(slots(2), step=120, bad=NONE_BAD)
    assert history.first_step_of(2) == 100


def test_a_record_is_known_where_its_launch_ran(history: SlotHistory) -> None:
    history.write(slots(1, 2), step=101, buffers=frozenset({"k.tail"}))
    assert history.known["k.tail"].tolist() == [False, True, True, *[False] * 5]
    assert history.known["v.tail"].tolist() == [True, False, False, *[True] * 5]
    history.copy(slots(1, 3), slots(5, 1), step=102)
    assert history.known["k.tail"][[5, 1]].tolist() == [True, False]


def test_a_slot_is_unwritten_since_a_step_that_was_its_last(history: SlotHistory) -> None:
    history.write(slots(1), step=120, buffers=frozenset())
    history.copy(slots(1), slots(2), step=130)
    assert history.is_unwritten_since(slots(0, 1, 2), 120).tolist() == [True, True, False]
