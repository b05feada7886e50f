"""KV310: bytes that changed places without their records."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.stamped_pools import F_STAMPS, deep_pool
from tests.helpers.worlds import build, fixture_f

JUDGING = [RealKvHashMode.PARTIAL, RealKvHashMode.ALL]


@pytest.mark.parametrize("tokens", [False, True], ids=["real", "token"])
@pytest.mark.parametrize("mode", JUDGING)
def test_t08_is_pages_whose_bytes_changed_places(mode: RealKvHashMode, tokens: bool) -> None:
    world = fixture_f(mode=mode)
    corruptions.swap_pages(world, 1, 2, records=False)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV310", [2, 3, 4, 5], ["A"])
    assert finding.evidence["unit"] == "page"
    assert finding.summary == (
        "slot 2 (page 1 +0) holds the bytes of slot 4 (page 2 +0), and its own record: "
        "2 pages in the wrong order"
    )


@pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_pages_of_two_requests_are_one_finding(page_size: int, digests_only: bool) -> None:
    world = deep_pool(page_size)
    pages = [world.request_of(name).slots[-1] // page_size for name in "AB"]
    corruptions.swap_pages(world, *pages, records=False)
    snapshot = world.snapshot(digests_only=digests_only)
    finding = finding_of(world.dataset(snapshot=snapshot))
    assert (finding.rule, finding.request_ids) == ("KV310", ["A", "B"])
    assert {slot // page_size for slot in finding.slots} == set(pages)


def test_two_swaps_are_two_findings() -> None:
    world = deep_pool(16)
    corruptions.swap_pages(world, 1, 2, records=False)
    corruptions.swap_pages(world, 3, 4, records=False)
    findings = findings_of(world)
    assert [finding.rule for finding in findings] == ["KV310", "KV310"]
    assert [finding.request_ids for finding in findings] == [["A"], ["B"]]


def test_slots_of_one_sequence_that_moved_by_one_are_permuted() -> None:
    world = fixture_f(stamps=F_STAMPS)
    for data in world.kv.values():
        data[7:10] = data[6:9].copy()
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.evidence["unit"]) == ("KV310", [7, 8, 9], "slot")


def test_a_storm_ends_in_one_finding() -> None:
    world = build(num_slots=2300, page_size=1, num_layers=1, stamps=("kv.k.0",))
    world = world.request("A", tokens=range(9, 2209), slots=range(2, 2202)).done()
    for data in world.kv.values():
        data[2:2202] = data[2:2202].reshape(-1, 2, 16)[:, ::-1].reshape(-1, 16)
    findings = findings_of(world)
    assert [finding.rule for finding in findings] == ["KV310"] * 1001
    assert [len(finding.slots) for finding in findings] == [200] + [2] * 1000


@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.overwrite_bytes(world, 7),
        lambda world: corruptions.swap_pages(world, 1, 2),
        lambda world: corruptions.zero_slots(world, [8, 9], records=False),
        lambda world: corruptions.copy_chain(world, "B", "A"),
    ],
    ids=["T03", "T07", "T10", "T13"],
)
@pytest.mark.parametrize("mode", RealKvHashMode)
def test_other_damage_is_no_permutation(
    damage: corruptions.Corruption, mode: RealKvHashMode
) -> None:
    world = fixture_f(mode=mode)
    damage(world)
    assert not report_of(world, select=("KV310",)).findings
