"""The entries of launches that verify and that write."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.plan import PlannedWrite, VerifyPlan, WritePlan
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


def _write(*offsets: int, num_tokens: int = 5, **lists: np.ndarray) -> PlannedWrite:
    tokens = np.arange(num_tokens)
    return PlannedWrite(
        plan=WritePlan(
            write_offsets=np.array(offsets),
            write_seed_slot_indices=np.zeros(len(offsets) - 1, dtype=np.int64),
            num_valid_reqs=len(offsets) - 1,
        ),
        **{"input_ids": tokens, "positions": tokens, "out_cache_loc": tokens, **lists},
    )


@pytest.mark.parametrize(
    ("offsets", "entries"),
    [
        ((0, 2, 5), [range(2), range(2, 5)]),
        ((-3, 2, 99), [range(2), range(2, 5)]),
        ((4, 1, 3), [range(4, 4), range(1, 3)]),
        ((7, 9), [range(5, 5)]),
    ],
)
def test_entries_of_a_request_are_clamped_as_the_launch_clamps_them(
    offsets: tuple[int, ...], entries: list[range]
) -> None:
    write = _write(*offsets)
    found = [write.entries_of(idx) for idx in range(write.plan.capacity)]
    assert [range(part.start, part.stop) for part in found] == entries


@pytest.mark.parametrize(("num_valid", "active"), [(-1, 0), (2, 2), (3, 2)])
def test_valid_requests_are_clamped_to_the_seeds(num_valid: int, active: int) -> None:
    plan = WritePlan(
        write_offsets=np.arange(3),
        write_seed_slot_indices=np.arange(2),
        num_valid_reqs=num_valid,
    )
    assert len(plan) == active


def test_a_write_plan_has_one_offset_more_than_seeds() -> None:
    with pytest.raises(ValuesInvalid):
        WritePlan(
            write_offsets=np.arange(2), write_seed_slot_indices=np.arange(2), num_valid_reqs=2
        )


def test_the_input_assert_is_on_where_the_expected_pair_is_given() -> None:
    pair = {"expected_input_tokens": np.arange(5), "expected_input_positions": np.arange(5)}
    assert not _write(0, 5).enable_write_input_assert
    assert _write(0, 5, **pair).enable_write_input_assert
    for name in pair:
        with pytest.raises(ValuesInvalid):
            _write(0, 5, **{name: np.arange(5)})
        with pytest.raises(ValuesInvalid):
            _write(0, 5, **(pair | {name: np.arange(4)}))
    with pytest.raises(ValuesInvalid):
        _write(0, 5, positions=np.arange(4))
