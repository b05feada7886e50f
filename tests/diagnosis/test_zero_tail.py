"""KV302: content that is zero from somewhere on."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.stamped_pools import COLUMNS, F_STAMPS, deep_pool, shared_prefix
from tests.helpers.worlds import World, fixture_f

JUDGING = [RealKvHashMode.PARTIAL, RealKvHashMode.ALL]


@pytest.mark.parametrize("tokens", [False, True], ids=["default", "token"])
@pytest.mark.parametrize("mode", RealKvHashMode)
@pytest.mark.parametrize("stamps", [(), F_STAMPS], ids=["records", "stamps"])
def test_t09_is_a_tail_without_records(
    mode: RealKvHashMode, stamps: tuple[str, ...], tokens: bool
) -> None:
    world = fixture_f(mode=mode, stamps=stamps)
    corruptions.zero_slots(world, [8, 9])
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV302", [8, 9], ["B"])
    assert (finding.evidence["from"], finding.alternatives) == ("page", [])
    assert finding.summary == (
        "records and bytes are zero from slot 8 (page 4 +0) on, in 2 slots, "
        "to the end of its sequence"
    )


@pytest.mark.parametrize("mode", JUDGING)
@pytest.mark.parametrize("stamps", [(), F_STAMPS], ids=["records", "stamps"])
def test_t10_is_a_tail_with_records(mode: RealKvHashMode, stamps: tuple[str, ...]) -> None:
    world = fixture_f(mode=mode, stamps=stamps)
    corruptions.zero_slots(world, [8, 9], records=False)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV302", [8, 9], ["B"])


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("records", [False, True], ids=["bytes", "records"])
def test_a_tail_is_named_at_any_page_size(page_size: int, records: bool) -> None:
    world = deep_pool(page_size)
    slots = world.request_of("B").slots[16:]
    corruptions.zero_slots(world, slots, records=records)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV302", slots, ["B"])
    assert finding.evidence["from"] == ("page" if page_size == 16 else "slot")


def test_layers_that_never_arrived_are_named() -> None:
    world = deep_pool(16)
    slots = world.request_of("B").slots
    for name in COLUMNS[40:]:
        world.kv[name][slots] = 0
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV302", slots)
    assert finding.evidence["columns"][0] == COLUMNS[40]
    assert finding.summary.startswith("kv.k.20 and 19 more are zero from slot 48")


@pytest.mark.parametrize("options", [{"stamps": F_STAMPS}, {"mode": RealKvHashMode.ALL}])
def test_a_row_that_is_zero_from_a_byte_on_is_a_tail_too(options: dict[str, object]) -> None:
    world = fixture_f(row_bytes=64, **options)
    world.kv["kv.k.0"][7, 40:] = 0
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV302", [7])
    assert (finding.evidence["from"], finding.evidence["byte"]) == ("byte", 40)


def test_rows_that_are_padded_everywhere_are_not_cut_off() -> None:
    world = _padded()
    world.kv["kv.k.0"][7, :32] ^= 0x5A
    assert not report_of(world, select=("KV302",)).findings


def _padded() -> World:
    world = fixture_f(row_bytes=64, stamps=F_STAMPS)
    for name in world.kv:
        world.kv[name][:, 48:] = 0
    for slot in range(2, 10):
        world.stamp_digests(slot)
    return world


def test_zeros_in_the_middle_may_be_a_late_writers() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.zero_slots(world, [7], records=False)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.alternatives) == ("KV302", [7], ["KV203"])
    assert finding.settled_by


def test_digests_tell_as_well_as_bytes() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.zero_slots(world, [8, 9], records=False)
    finding = finding_of(world.dataset(snapshot=world.snapshot(digests_only=True)))
    assert (finding.rule, finding.slots) == ("KV302", [8, 9])


def test_a_zero_prefix_taints_all_that_share_it() -> None:
    world = shared_prefix()
    corruptions.zero_slots(world, [2, 3])
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV302", [2, 3], ["A", "C"])


def test_a_tail_and_a_flip_are_two_findings() -> None:
    world = fixture_f(stamps=F_STAMPS, mode=RealKvHashMode.ALL)
    corruptions.zero_slots(world, [8, 9], records=False)
    corruptions.flip_bit(world, "kv.k.0", 3)
    found = {(finding.rule, *finding.slots) for finding in findings_of(world)}
    assert found == {("KV302", 8, 9), ("KV304", 3)}


@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.overwrite_bytes(world, 7),
        lambda world: corruptions.swap_pages(world, 1, 2),
        lambda world: corruptions.swap_pages(world, 1, 2, records=False),
        lambda world: corruptions.zero_slots(world, [6, 7, 8, 9], data=False),
        lambda world: corruptions.flip_bit(world, "kv.k.0", 7),
    ],
    ids=["T03", "T07", "T08", "T26", "T17"],
)
@pytest.mark.parametrize("mode", RealKvHashMode)
def test_other_damage_is_no_tail(damage: corruptions.Corruption, mode: RealKvHashMode) -> None:
    world = fixture_f(mode=mode)
    damage(world)
    assert not report_of(world, select=("KV302",)).findings
