"""A state's ring is as long as its counters say."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.errors import ValuesInvalid


def state(*, num_rows: int, violations: int, capacity: int, fields: int = 8) -> CanaryState:
    return CanaryState(
        ring=np.zeros((num_rows, fields), dtype=np.int64),
        violation_write_index=violations,
        ring_capacity=capacity,
        kernel_run_counters={LaunchTag.TAIL_V_FULL: 3},
        slot_run_counters={LaunchTag.HEAD_K_FULL: 1},
        active_tags=(LaunchTag.TAIL_K_FULL,),
        sweep_passes={LaunchTag.SWEEP_K_FULL: 2},
    )


@pytest.mark.parametrize(
    ("num_rows", "violations", "capacity"), [(0, 0, 0), (0, 0, 8), (2, 2, 2), (2, 9, 2), (3, 3, 8)]
)
def test_a_ring_holds_the_first_violations(num_rows: int, violations: int, capacity: int) -> None:
    found = state(num_rows=num_rows, violations=violations, capacity=capacity)
    assert found.is_overflown is (violations > capacity)


@pytest.mark.parametrize(
    ("num_rows", "violations", "capacity"), [(1, 0, 8), (1, 2, 8), (3, 2, 2), (8, 9, 10)]
)
def test_other_lengths_are_refused(num_rows: int, violations: int, capacity: int) -> None:
    with pytest.raises(ValuesInvalid) as caught:
        state(num_rows=num_rows, violations=violations, capacity=capacity)
    assert caught.value.hint


def test_a_row_has_eight_fields() -> None:
    with pytest.raises(ValuesInvalid):
        state(num_rows=1, violations=1, capacity=1, fields=7)


def test_every_tag_that_something_is_said_of_is_named_once() -> None:
    assert state(num_rows=0, violations=0, capacity=0).tags == (
        LaunchTag.HEAD_K_FULL,
        LaunchTag.TAIL_K_FULL,
        LaunchTag.TAIL_V_FULL,
        LaunchTag.SWEEP_K_FULL,
    )
