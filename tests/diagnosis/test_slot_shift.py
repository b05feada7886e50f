"""KV206: a sequence's own content on slots of its other positions."""

from __future__ import annotations

import pytest

from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, report_of
from tests.helpers.long_pools import PAGE_SIZES, long_pool
from tests.helpers.worlds import fixture_f

TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("by", [1, -1])
@TOKENS
def test_content_one_slot_off_from_a_position_on_is_named(
    page_size: int, by: int, tokens: bool
) -> None:
    world = long_pool(page_size, num_pages=4 if page_size > 1 else 30)
    slots = world.request_of("R1").slots
    corruptions.shift_slots(world, "R1", first=7, by=by)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV206", ["R1"])
    assert finding.evidence["shift"] == by
    assert set(finding.slots) >= set(slots[8:-1])


@TOKENS
def test_two_slots_that_changed_places_within_a_page_are_slots(tokens: bool) -> None:
    world = long_pool(16)
    slots = world.request_of("R1").slots
    corruptions.copy_slots(world, [slots[3], slots[7]], [slots[7], slots[3]])
    report = report_of(world, tokens=tokens, select=("KV2",))
    assert {finding.rule for finding in report.findings} == {"KV206"}
    assert {slot for found in report.findings for slot in found.slots} == {slots[3], slots[7]}


def test_a_wrong_position_on_the_right_slot_is_no_slot_shift() -> None:
    """CASES.md T05."""
    world = fixture_f()
    corruptions.shift_positions(world, "B", first=2, delta=1)
    assert not report_of(world, select=("KV206",)).findings
