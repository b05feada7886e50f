"""KV209: a slot has its bytes, and no record of them."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.severity import Severity
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.long_pools import PAGE_SIZES, long_pool
from tests.helpers.worlds import World, fixture_f

TOKENS = pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])


def _unstamped(page_size: int = 16, *, first: int = 0, **options: object) -> World:
    world = long_pool(page_size, **options)
    corruptions.zero_slots(world, world.request_of("R1").slots[first:], data=False)
    return world


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("mode", RealKvHashMode)
@pytest.mark.parametrize("digests_only", [False, True])
@TOKENS
def test_a_request_that_was_never_stamped_is_one_cause(
    page_size: int, mode: RealKvHashMode, digests_only: bool, tokens: bool
) -> None:
    """CASES.md T26; digests tell as well as bytes."""
    world = _unstamped(page_size, mode=mode)
    snapshot = world.snapshot(digests_only=digests_only)
    finding = finding_of(world.dataset(tokens=tokens, snapshot=snapshot))
    assert (finding.rule, finding.request_ids) == ("KV209", ["R1"])
    assert finding.slots == world.request_of("R1").slots
    assert (finding.severity, finding.alternatives) == (Severity.ERROR, [])


@TOKENS
def test_the_end_of_a_request_that_was_not_stamped_is_named_from_its_first_slot(
    tokens: bool,
) -> None:
    world = _unstamped(first=20)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots) == ("KV209", world.request_of("R1").slots[20:])


def test_a_hole_counts_the_chain_check_behind_it() -> None:
    world = fixture_f()
    corruptions.zero_slots(world, [7], data=False)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.evidence["rows"]) == ("KV209", [7], 2)


def test_without_bytes_and_digests_it_stays_open() -> None:
    world = _unstamped()
    finding = finding_of(world.dataset(snapshot=world.snapshot(kv={})))
    assert (finding.rule, finding.severity) == ("KV209", None)
    assert finding.alternatives == ["KV302", "KV311"]
    assert "digests" in finding.settled_by


@pytest.mark.parametrize("slots", [[6, 7, 8, 9], [8, 9]], ids=["T12", "T09"])
@TOKENS
def test_zero_records_of_zero_bytes_never_came(slots: list[int], tokens: bool) -> None:
    world = fixture_f()
    corruptions.zero_slots(world, slots)
    assert not report_of(world, tokens=tokens, select=("KV2",)).findings


def test_a_column_without_any_record_is_not_judged() -> None:
    """CASES.md G8."""
    world = fixture_f(canary=("k.tail", "v.tail"))
    world.records["v.tail"][:] = 0
    assert not findings_of(world)
