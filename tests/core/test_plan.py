"""The entries of a launch."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.plan import VerifyPlan
from kvaudit.errors import ValuesInvalid


def _plan(num_valid: int, *, tokens: int = 4) -> VerifyPlan:
    return VerifyPlan(
        verify_slot_indices=np.arange(4),
        verify_expected_tokens=np.arange(tokens),
        verify_expected_positions=np.arange(4),
        verify_prev_slot_indices=np.arange(4),
        num_valid=num_valid,
    )


@pytest.mark.parametrize(("num_valid", "active"), [(-3, 0), (0, 0), (3, 3), (4, 4), (9, 4)])
def test_active_entries_are_clamped_to_the_lists(num_valid: int, active: int) -> None:
    plan = _plan(num_valid)
    assert (len(plan), plan.capacity) == (active, 4)


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValuesInvalid):
        _plan(2, tokens=3)
