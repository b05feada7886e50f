"""KV204: positions that were wrong when they were stamped."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, report_of
from tests.helpers.long_pools import PAGE_SIZES, long_pool
from tests.helpers.worlds import fixture_f

TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("delta", [1, -2, 64])
@TOKENS
def test_positions_off_by_a_constant_are_one_cause(
    page_size: int, delta: int, tokens: bool
) -> None:
    """CASES.md T05."""
    world = long_pool(page_size, num_pages=4 if page_size > 1 else 30)
    corruptions.shift_positions(world, "R1", first=20, delta=delta)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.request_ids) == ("KV204", ["R1"])
    assert finding.slots == world.request_of("R1").slots[20:]
    assert (finding.evidence["first_delta"], finding.evidence["last_delta"]) == (delta, delta)


def test_positions_that_drift_are_one_cause() -> None:
    world = fixture_f()
    corruptions.drift_positions(world, "B", first=1)
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV204", [7, 8, 9])
    assert (finding.evidence["first_delta"], finding.evidence["last_delta"]) == (1, 3)
    assert "off by +1 to +3" in finding.summary


def test_at_the_end_of_a_chain_one_bit_may_be_a_flip() -> None:
    world = fixture_f()
    corruptions.flip_record_bit(world, 9, corruptions.POSITION)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.alternatives) == ("KV204", [9], ["KV208"])


@pytest.mark.parametrize("data", [False, True])
def test_a_zero_record_has_no_position(data: bool) -> None:
    """CASES.md T12 and T26."""
    world = fixture_f(mode=RealKvHashMode.ALL)
    corruptions.zero_slots(world, [6, 7, 8, 9], data=data)
    assert not report_of(world, select=("KV204",)).findings


def test_a_swapped_page_is_no_shift_of_positions() -> None:
    """CASES.md T07."""
    world = fixture_f()
    corruptions.swap_pages(world, 1, 2)
    assert {found.rule for found in report_of(world).findings} == {"KV205"}
