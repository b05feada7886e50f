from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.plan import VerifyPlan
from kvaudit.errors import ValuesInvalid


def plan(num_valid: int, *, capacity: int = 4, positions: int = 4) -> VerifyPlan:
    return VerifyPlan(
        verify_slot_indices=np.zeros(capacity, dtype=np.int64),
        verify_expected_tokens=np.zeros(capacity, dtype=np.int64),
        verify_expected_positions=np.zeros(positions, dtype=np.int64),
        verify_prev_slot_indices=np.zeros(capacity, dtype=np.int64),
        num_valid=num_valid,
    )


@pytest.mark.parametrize(("num_valid", "active"), [(-3, 0), (0, 0), (3, 3), (4, 4), (9, 4)])
def test_active_entries_are_clamped_to_the_capacity(num_valid: int, active: int) -> None:
    assert len(plan(num_valid)) == active
    assert plan(num_valid).capacity == 4


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValuesInvalid):
        plan(1, positions=3)
