"""Slots as the kernels see them."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.core.entries import slot_shift_of, to_kernel_slots
from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.layout import SlotRanges
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.row_space import RowSpace
from tests.helpers.worlds import fixture_f


def _snapshot(slots: list[int], *, reserved: str = "0", num_slots: int = 16) -> Snapshot:
    return Snapshot(
        slots=np.array(slots, dtype=np.int64),
        num_slots=num_slots,
        page_size=4,
        reserved_slots=SlotRanges.parse(reserved),
    )


def _indices(snapshot: Snapshot, slots: list[int]) -> list[int]:
    engine = np.array(slots, dtype=np.int64)
    return RowSpace(snapshot).indices_of(to_kernel_slots(engine, slot_shift_of(snapshot))).tolist()


def test_a_dense_pool_needs_no_translation() -> None:
    slots = np.array([3, 1, 2], dtype=np.int64)
    space = RowSpace(_snapshot(list(range(16))))
    assert space.indices_of(slots) is slots
    assert space.num_indices == 16


def test_a_dense_pool_without_slot_0_has_a_dummy_in_front() -> None:
    assert _indices(_snapshot(list(range(2, 16))), [2, 15, 0, 1, 16, -5]) == [1, 14, 0, 0, 15, -1]


def test_a_sparse_dump_has_only_the_rows_it_has() -> None:
    assert _indices(_snapshot([0, 3, 9]), [0, 3, 9, 4, 15, 16, -1]) == [0, 1, 2, 0, 0, 3, -1]
    assert _indices(_snapshot([3, 9]), [0, 3, 9, 4, 15, 16, -1]) == [0, 1, 2, 0, 0, 3, -1]


@pytest.mark.parametrize("rows", [list(range(16)), [0, 3, 9]], ids=["dense", "sparse"])
def test_where_slot_0_is_real_it_is_a_row_like_any_other(rows: list[int]) -> None:
    snapshot = _snapshot(rows, reserved="none")
    past_end = len(rows) + 1
    assert _indices(snapshot, [0, 3, 16, -1]) == [1, rows.index(3) + 1, past_end, -1]
    assert RowSpace(snapshot).indices_of(np.array([0])).tolist() == [0]


@pytest.mark.parametrize(("reserved", "past_end"), [("0", 2), ("none", 3)])
def test_huge_slots_stay_outside_a_sparse_pool(reserved: str, past_end: int) -> None:
    """Where slot 0 is real, padding has a row of its own in front of the two."""
    highest = np.iinfo(np.int64).max
    snapshot = _snapshot([0, 3], reserved=reserved)
    assert _indices(snapshot, [highest, -highest]) == [past_end, -1]


@pytest.mark.parametrize(("first", "reserved"), [(0, "0"), (2, "0"), (0, "none"), (2, "none")])
def test_no_slot_is_so_far_outside_a_dense_pool_that_it_comes_round(
    first: int, reserved: str
) -> None:
    snapshot = _snapshot(list(range(first, 16)), reserved=reserved)
    lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    past_end = RowSpace(snapshot).past_end
    assert _indices(snapshot, [lowest, highest, 15, lowest + 1, highest - 1]) == (
        [-1, past_end, past_end - 1, -1, past_end]
    )


def test_an_empty_snapshot_lacks_every_slot() -> None:
    assert _indices(_snapshot([]), [0, 3, 16, -1]) == [0, 0, 1, -1]


def test_records_are_the_columns_own_where_row_0_is_padding() -> None:
    values = np.arange(64).reshape(16, 4)
    column = ArrayColumn(name="canary.k.tail", values=values)
    assert RowSpace(_snapshot(list(range(16)))).records(column) is values
    moved = RowSpace(_snapshot(list(range(16)), reserved="none")).records(column)
    assert moved[1:].tolist() == values.tolist()
    assert not moved[0].any()


def test_garbage_in_reserved_slots_is_no_record() -> None:
    values = np.zeros((16, 4), dtype=np.int64)
    values[:4] = 7
    space = RowSpace(_snapshot(list(range(16)), reserved="0-3"))
    assert not space.holds_records(values)
    values[15, 3] = 1
    assert space.holds_records(values)


def test_a_mask_by_index_is_false_for_padding_and_outside() -> None:
    space = RowSpace(_snapshot(list(range(16))))
    mask = space.by_index(np.ones(16, dtype=np.bool_))
    assert mask[[0, 1, 15, 16, -1]].tolist() == [False, True, True, False, False]


def test_a_stamped_step_of_minus_1_is_never_stamped() -> None:
    world = fixture_f()
    assert RowSpace(world.snapshot()).never_stamped is None
    world.evidence["stamped_step"] = np.full(16, 3)
    assert RowSpace(world.snapshot()).never_stamped_indices is None
    world.evidence["stamped_step"][[0, 4, 5]] = -1
    space = RowSpace(world.snapshot())
    assert np.flatnonzero(space.never_stamped).tolist() == [0, 4, 5]
    assert np.flatnonzero(space.never_stamped_indices).tolist() == [4, 5]


def test_positions_are_read_where_there_is_a_record() -> None:
    space = RowSpace(fixture_f().snapshot())
    records = np.arange(64).reshape(16, 4)
    positions = space.stored_positions(records, np.array([-1, 0, 1, 15, space.past_end]))
    assert positions.tolist() == [-1, -1, 5, 61, -1]
