"""KV103: a plan's predecessor against the plan's own order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.entries import Scope
from kvaudit.core.finding import Finding
from kvaudit.core.layout import SlotRanges
from kvaudit.core.plan import PlannedLaunch, VerifyPlan
from kvaudit.diagnosis.broken_link import find
from tests.helpers.pool_evidence import evidence_of
from tests.helpers.worlds import build, fixture_f


def _launch(*, names: bool = True, **prev_slots: int) -> PlannedLaunch:
    """Fixture F's plan with some predecessors replaced, by entry: `e5=3`."""
    (launch,) = fixture_f().plan(names=names).launches
    for entry, prev_slot in prev_slots.items():
        launch.plan.verify_prev_slot_indices[int(entry[1:])] = prev_slot
    return launch


def _found(launch: PlannedLaunch, **changes: object) -> list[Finding]:
    return find(evidence_of(fixture_f(), launches=[launch], **changes))


@pytest.mark.parametrize("names", [True, False])
def test_a_right_plan_is_clean(names: bool) -> None:
    assert not _found(_launch(names=names))


@pytest.mark.parametrize("names", [True, False])
def test_a_link_into_another_position_is_broken(names: bool) -> None:
    (finding,) = _found(_launch(names=names, e5=9))
    assert finding.slots == [7]
    assert finding.request_ids == (["B"] if names else [])
    assert finding.evidence["examples"] == [{"entry": 5, "slot": 7, "position": 1, "prev_slot": 9}]


def test_a_link_into_another_request_is_broken_where_requests_are_named() -> None:
    assert _found(_launch(e5=2))[0].slots == [7]
    assert not _found(_launch(names=False, e5=2))


def test_a_link_to_a_slot_outside_the_plan_is_broken_where_requests_are_named() -> None:
    assert _found(_launch(e5=12))[0].slots == [7]
    assert not _found(_launch(names=False, e5=12))


@pytest.mark.parametrize("names", [True, False])
def test_a_head_in_the_middle_and_a_link_at_position_0_are_broken(names: bool) -> None:
    assert _found(_launch(names=names, e6=-1))[0].slots == [8]
    assert _found(_launch(names=names, e4=5))[0].slots == [6]


def test_an_unreachable_predecessor_says_nothing() -> None:
    assert not _found(_launch(e4=0, e6=0))


def test_where_slot_0_is_real_it_is_a_predecessor_like_any_other() -> None:
    world = build(reserved="none").request("A", tokens=[1, 2, 3], slots=[0, 1, 2]).done()
    (launch,) = world.plan().launches
    assert not find(evidence_of(world, launches=[launch]))
    launch.plan.verify_prev_slot_indices[2] = 0
    assert find(evidence_of(world, launches=[launch]))[0].slots == [2]


def test_a_declared_position_offset_moves_the_head() -> None:
    launch = _launch()
    moved = replace(
        launch,
        plan=replace(
            launch.plan,
            verify_expected_positions=launch.plan.verify_expected_positions + 1,
        ),
    )
    assert not _found(moved, snapshot=fixture_f().snapshot(position_offset=1))
    assert _found(moved)[0].slots == [2, 6]


def test_windows_that_meet_by_chance_are_no_link() -> None:
    """Entry order alone would take B's position 2 for the successor of A's position 1."""
    slots, prev_slots, positions = [2, 3, 8, 9], [-1, 2, 7, 8], [0, 1, 2, 3]
    plan = VerifyPlan(
        verify_slot_indices=np.array(slots),
        verify_expected_tokens=np.full(4, -1),
        verify_expected_positions=np.array(positions),
        verify_prev_slot_indices=np.array(prev_slots),
        num_valid=4,
    )
    for names in (None, ["A", "A", "B", "B"]):
        launch = PlannedLaunch(
            step=1, tags=None, plan=plan, check_verify_expected_token=False, request_ids=names
        )
        assert not _found(launch)


def test_unfilled_rows_and_disabled_plans_are_not_read() -> None:
    (padded,) = fixture_f().plan(padding=3).launches
    padded.plan.verify_prev_slot_indices[-1] = 7
    assert not _found(padded)
    launch = _launch(e5=9)
    assert not _found(replace(launch, plan=replace(launch.plan, enable=False)))


def test_the_scope_is_kept() -> None:
    launch = _launch(e5=9)
    assert not _found(launch, scope=Scope(request_ids=frozenset("A")))
    assert not _found(launch, scope=Scope(slots=SlotRanges.parse("2-6")))
    assert _found(launch, scope=Scope(request_ids=frozenset("B"), slots=SlotRanges.parse("7")))
    assert not _found(_launch(names=False, e5=9), scope=Scope(request_ids=frozenset("B")))
