from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.identity import Threshold
from kvaudit.runner.identity.threshold import floor_of, proved_threshold, threshold_of

DIFFERENT = np.linspace(0.5, 1.4, 1000)


def test_equal_rows_give_the_floor_of_their_type() -> None:
    found = threshold_of(np.zeros(50), DIFFERENT, floor=0.05)
    assert isinstance(found, Threshold)
    assert (found.distance, found.noise, found.pairs) == (0.05, 0.0, 50)
    assert 0.5 <= found.separation < 0.55


def test_noise_raises_the_threshold_as_far_as_the_separation_leaves_room() -> None:
    some = threshold_of(np.full(50, 0.02), DIFFERENT, floor=0.05)
    much = threshold_of(np.full(50, 0.1), DIFFERENT, floor=0.05)
    assert isinstance(some, Threshold)
    assert isinstance(much, Threshold)
    assert some.distance == pytest.approx(0.08)
    assert much.distance == pytest.approx(much.separation / 2)


@pytest.mark.parametrize(
    ("same", "different", "words"),
    [
        (np.zeros(7), DIFFERENT, "too few tokens occur twice"),
        (np.zeros(50), np.full(100, 0.09), "too alike to tell apart"),
        (np.zeros(50), np.empty(0), "too alike to tell apart"),
        (np.full(50, 1.2), DIFFERENT, "differ in 100% of the pairs"),
        (np.r_[np.zeros(24), np.full(26, 1.2)], DIFFERENT, "differ in 52% of the pairs"),
        (np.linspace(0, 0.26, 50), DIFFERENT, "rows of one token differ by 0.26"),
        (np.full(50, np.inf), DIFFERENT, "differ in 100% of the pairs"),
    ],
)
def test_rows_that_do_not_tell_say_why(same: np.ndarray, different: np.ndarray, words: str) -> None:
    found = threshold_of(same, different, floor=0.05)
    assert isinstance(found, str)
    assert words in found


def test_a_fifth_of_faults_is_no_noise() -> None:
    same = np.r_[np.full(80, 0.001), np.full(20, 1.1)]
    found = threshold_of(same, DIFFERENT, floor=0.05)
    assert isinstance(found, Threshold)
    assert found.distance == 0.05


def test_a_table_needs_one_row_and_takes_rows_a_little_off_for_faults() -> None:
    assert isinstance(proved_threshold(np.zeros(1), DIFFERENT, floor=0.05), Threshold)
    same = np.r_[np.zeros(93), np.full(7, 0.2)]
    assert isinstance(threshold_of(same, DIFFERENT, floor=0.05), str)
    by_table = proved_threshold(same, DIFFERENT, floor=0.05)
    assert isinstance(by_table, Threshold)
    assert by_table.distance == 0.05


def test_fewer_bits_have_a_higher_floor() -> None:
    floors = [floor_of(name) for name in ("float32", "bfloat16", "float16", "float8_e4m3fn")]
    assert floors == [0.01, 0.05, 0.05, 0.15]
