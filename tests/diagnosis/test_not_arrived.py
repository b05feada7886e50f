"""KV311: sequences of which nothing arrived."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.stamped_pools import F_STAMPS, deep_pool, shared_prefix
from tests.helpers.worlds import build, fixture_f

EVERY_BUFFER = ("k.head", "k.tail", "v.head", "v.tail")


@pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
@pytest.mark.parametrize("mode", RealKvHashMode)
@pytest.mark.parametrize("stamps", [(), F_STAMPS], ids=["records", "stamps"])
def test_t12_is_a_request_of_which_nothing_arrived(
    mode: RealKvHashMode, stamps: tuple[str, ...], tokens: bool
) -> None:
    world = fixture_f(mode=mode, stamps=stamps)
    corruptions.zero_slots(world, [6, 7, 8, 9])
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV311", [6, 7, 8, 9], ["B"])
    assert finding.summary == (
        "nothing of request B arrived: records and bytes are zero from slot 6 (page 3 +0) on, "
        "in 4 slots"
    )


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_a_long_request_is_named_at_any_page_size(page_size: int) -> None:
    world = deep_pool(page_size)
    slots = world.request_of("B").slots
    corruptions.zero_slots(world, slots)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV311", slots, ["B"])


def test_head_and_tail_k_and_v_are_one_finding() -> None:
    world = fixture_f(canary=EVERY_BUFFER)
    corruptions.zero_slots(world, [6, 7, 8, 9])
    finding = finding_of(world)
    assert (finding.evidence["rows"], len(finding.evidence["launches"])) == (16, 4)


def test_what_a_request_shares_was_there_before() -> None:
    world = shared_prefix()
    corruptions.zero_slots(world, [8, 9])
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV311", [8, 9], ["C"])
    assert "nothing from position 2 on of request C arrived" in finding.summary


def test_digests_tell_as_well_as_bytes() -> None:
    world = fixture_f()
    corruptions.zero_slots(world, [6, 7, 8, 9])
    finding = finding_of(world.dataset(snapshot=world.snapshot(digests_only=True)))
    assert finding.rule == "KV311"


def test_two_requests_are_two_findings() -> None:
    builder = build(stamps=F_STAMPS)
    for number, name in enumerate("ABC"):
        first = 2 + 4 * number
        builder.request(name, tokens=range(9 * first, 9 * first + 4), slots=range(first, first + 4))
    world = builder.done()
    corruptions.zero_slots(world, [2, 3, 4, 5, 6, 7, 8, 9])
    found = {(finding.rule, *finding.request_ids) for finding in findings_of(world)}
    assert found == {("KV311", "A"), ("KV311", "B")}


@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.zero_slots(world, [8, 9]),
        lambda world: corruptions.zero_slots(world, [6, 7, 8, 9], records=False),
        lambda world: corruptions.zero_slots(world, [6, 7, 8, 9], data=False),
        lambda world: corruptions.zero_slots(world, [6, 7]),
    ],
    ids=["T09", "T10", "T26", "head-of-request"],
)
@pytest.mark.parametrize("mode", RealKvHashMode)
def test_other_damage_is_no_lost_transfer(
    damage: corruptions.Corruption, mode: RealKvHashMode
) -> None:
    world = fixture_f(mode=mode)
    damage(world)
    assert not report_of(world, select=("KV311",)).findings
