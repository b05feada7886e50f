"""Entries of a dumped plan."""

from __future__ import annotations

import numpy as np

from kvaudit.core import launch_entries
from kvaudit.core.entries import EntrySource, Scope
from kvaudit.core.launch_entries import LaunchEntries
from kvaudit.core.layout import SlotRanges
from tests.helpers.entry_rows import rows_of
from tests.helpers.worlds import fixture_f


def test_a_plan_gives_its_active_entries_with_their_requests(monkeypatch) -> None:
    world = fixture_f()
    (launch,) = world.plan(padding=1).launches
    monkeypatch.setattr(launch_entries, "MAX_BLOCK_ENTRIES", 3)
    source: EntrySource = LaunchEntries(launch=launch)
    assert [row[1:4] for row in rows_of(source.blocks())] == [
        (2, -1, 11), (3, 2, 12), (4, 3, 13), (5, 4, 14),
        (6, -1, 21), (7, 6, 22), (8, 7, 23), (9, 8, 24), (0, 0, -1),
    ]  # fmt: skip
    assert source.request_ids_of(np.array([0, 5])) == ["A", "B"]
    assert [slots.tolist() for slots in source.slot_blocks()] == [[2, 3, 4], [5, 6, 7], [8, 9, 0]]


def test_a_plan_that_names_no_requests_has_none_of_them_in_scope() -> None:
    (launch,) = fixture_f().plan(names=False).launches
    source = LaunchEntries(launch=launch, scope=Scope(request_ids=frozenset("A")))
    assert source.num_entries == 0
    assert rows_of(source.blocks()) == []
    assert LaunchEntries(launch=launch).request_ids_of(np.array([3])) == [None]


def test_a_plans_scope_keeps_entry_numbers() -> None:
    (launch,) = fixture_f().plan().launches
    scope = Scope(request_ids=frozenset("B"), slots=SlotRanges.parse("7-30"))
    source = LaunchEntries(launch=launch, scope=scope, slot_shift=2)
    assert [row[:3] for row in rows_of(source.blocks())] == [(5, 9, 8), (6, 10, 9), (7, 11, 10)]
