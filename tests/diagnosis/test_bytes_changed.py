"""KV301: bytes that changed, by nothing more definite."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.stamped_pools import COLUMNS, F_STAMPS, deep_pool
from tests.helpers.worlds import build, fixture_f

JUDGING = [RealKvHashMode.PARTIAL, RealKvHashMode.ALL]


@pytest.mark.parametrize("tokens", [False, True], ids=["real", "token"])
@pytest.mark.parametrize("mode", JUDGING)
@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.overwrite_bytes(world, 7),
        lambda world: corruptions.stamp_before_bytes(world, 7),
    ],
    ids=["T03", "T27"],
)
def test_content_that_is_nowhere_else_is_bytes_that_changed(
    damage: corruptions.Corruption, mode: RealKvHashMode, tokens: bool
) -> None:
    world = fixture_f(mode=mode)
    damage(world)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV301", [7], ["B"])
    assert list(finding.alternatives) == ["KV203", "KV303"]
    assert "another copy of these slots" in finding.settled_by


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_all_columns_of_a_run_are_one_finding(page_size: int) -> None:
    world = deep_pool(page_size)
    slots = world.request_of("B").slots[5:9]
    for slot in slots:
        corruptions.overwrite_bytes(world, slot, position=slot + 900)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.evidence["rows"]) == ("KV301", slots, 4)
    assert finding.evidence["num_columns"] == len(COLUMNS)
    assert finding.summary == (
        f"the KV at slot {slots[0]} (page {slots[0] // page_size} +{slots[0] % page_size}) is not "
        f"what was stamped, in kv.k.0 and {len(COLUMNS) - 1} more; 4 slots in all"
    )


def test_a_combined_hash_and_stamps_are_one_finding() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamps=F_STAMPS)
    corruptions.overwrite_bytes(world, 7)
    assert finding_of(world).evidence["rows"] == 2


def test_two_places_are_two_findings() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.overwrite_bytes(world, 3)
    corruptions.overwrite_bytes(world, 7, token=98)
    assert [finding.slots for finding in findings_of(world)] == [[3], [7]]


def test_a_storm_ends_in_one_finding() -> None:
    world = build(num_slots=4000, stamps=F_STAMPS)
    world = world.request("A", tokens=range(9, 3009), slots=range(2, 3002)).done()
    for data in world.kv.values():
        data[2:3002:2] ^= 0x5A
    findings = findings_of(world)
    assert len(findings) == 1001
    assert len(findings[0].slots) == 500


def test_digests_alone_leave_more_open_and_say_so() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.1", 3, bit=5)
    finding = finding_of(world.dataset(snapshot=world.snapshot(digests_only=True)))
    assert (finding.rule, finding.slots) == ("KV301", [3])
    assert list(finding.alternatives) == ["KV203", "KV304", "KV303", "KV306"]
    assert finding.settled_by.startswith("the KV bytes: this dump holds their digests alone")


def test_a_pool_without_sequences_is_explained_too() -> None:
    world = fixture_f(stamps=F_STAMPS, canary=())
    corruptions.overwrite_bytes(world, 7)
    finding = finding_of(Dataset(pools=[AuditedPool(snapshot=world.snapshot())]))
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV301", [7], [])


@pytest.mark.parametrize("mode", RealKvHashMode)
@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.flip_record_bit(world, 7, corruptions.REAL_KV_HASH),
        lambda world: corruptions.zero_slots(world, [6, 7, 8, 9], data=False),
        lambda world: corruptions.swap_pages(world, 1, 2),
    ],
    ids=["T22", "T26", "T07"],
)
def test_damage_of_records_is_no_matter_of_bytes(
    damage: corruptions.Corruption, mode: RealKvHashMode
) -> None:
    world = fixture_f(mode=mode)
    damage(world)
    assert not report_of(world, select=("KV301",)).findings
