"""Slots in the engine's numbering and in the kernels'."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.entries import (
    ALL_ENTRIES,
    EntryBlock,
    Scope,
    slot_shift_of,
    to_engine_slots,
    to_kernel_slots,
)
from kvaudit.core.layout import SlotRanges
from tests.helpers.worlds import build, fixture_f


def test_a_reserved_slot_0_needs_no_shift() -> None:
    assert slot_shift_of(build(reserved="0-3").done().snapshot()) == 0
    assert slot_shift_of(build(reserved="none", page_size=4).done().snapshot()) == 4
    slots = np.array([3, -1])
    assert to_kernel_slots(slots, 0) is slots
    assert to_engine_slots(slots, 0) is slots


def test_a_shift_comes_off_again_and_leaves_negative_slots_alone() -> None:
    slots = np.array([0, 5, -1, -16])
    shifted = to_kernel_slots(slots, 16)
    assert shifted.tolist() == [16, 21, -1, -16]
    assert to_engine_slots(shifted, 16).tolist() == slots.tolist()


def test_the_highest_slots_neither_wrap_nor_change() -> None:
    highest = np.iinfo(np.int64).max - np.arange(16)
    shifted = to_kernel_slots(highest, 16)
    assert shifted.tolist() == highest.tolist()
    assert to_engine_slots(shifted, 16).tolist() == highest.tolist()


def test_a_block_keeps_its_columns_together() -> None:
    columns = (
        "entry_indices",
        "slot_indices",
        "prev_slot_indices",
        "expected_tokens",
        "expected_positions",
    )
    block = EntryBlock(**{name: np.arange(4) + 10 * at for at, name in enumerate(columns)})
    kept = block.only(np.array([True, False, False, True]))
    assert len(kept) == 2
    assert [getattr(kept, name).tolist() for name in columns] == [
        [10 * at, 10 * at + 3] for at in range(5)
    ]


def test_a_scope_admits_what_it_names() -> None:
    assert ALL_ENTRIES.admits_requests(["A", "B"]).all()
    assert ALL_ENTRIES.admits_slots(np.array([1, 2])).all()
    scope = Scope(request_ids=frozenset("B"), slots=SlotRanges.parse("2-3"))
    assert scope.admits_requests(["A", "B"]).tolist() == [False, True]
    assert scope.admits_slots(np.array([1, 2, 3, 4])).tolist() == [False, True, True, False]


def test_entries_of_a_launch_are_in_scope_by_their_request_and_their_slot() -> None:
    (launch,) = fixture_f().plan().launches
    assert Scope().admits_entries(launch) is None
    scope = Scope(request_ids=frozenset("A"), slots=SlotRanges.parse("3-7"))
    assert np.flatnonzero(scope.admits_entries(launch)).tolist() == [1, 2, 3]
    nameless = replace(launch, request_ids=None)
    assert not scope.admits_entries(nameless).any()
    slots_alone = Scope(slots=SlotRanges.parse("9")).admits_entries(nameless)
    assert np.flatnonzero(slots_alone).tolist() == [7]
