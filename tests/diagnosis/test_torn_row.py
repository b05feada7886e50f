"""KV303: slots that are half of one content and half of another."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.stamped_pools import COLUMNS, F_STAMPS, LAYERS, deep_pool
from tests.helpers.worlds import World, fixture_f


def _tear(world: World, slot: int, donor: int, *, first: int, last: int | None = None) -> None:
    """Part of every row of a slot is another slot's."""
    for data in world.kv.values():
        data[slot, first:last] = data[donor, first:last]


def _tear_layers(world: World, slots: list[int], *, first: int, last: int = LAYERS) -> None:
    """The layers of a range are not a slot's own."""
    for name in COLUMNS:
        if first <= int(name.split(".")[2]) < last:
            world.kv[name][slots] ^= 0x5A


@pytest.mark.parametrize("options", [{"stamps": F_STAMPS}, {"mode": RealKvHashMode.ALL}])
@pytest.mark.parametrize(("first", "last", "part"), [(40, None, "tail"), (0, 40, "head")])
def test_a_row_with_the_end_of_another_slot_is_torn(
    options: dict[str, object], first: int, last: int | None, part: str
) -> None:
    world = fixture_f(row_bytes=64, **options)
    _tear(world, 7, 3, first=first, last=last)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV303", [7], ["B"])
    assert (finding.evidence["part"], finding.evidence["split_byte"]) == (part, 40)
    assert finding.evidence["content_of_slot"] == 3
    where = "from byte 40 on" if part == "tail" else "up to byte 40"
    assert finding.summary == (
        f"slot 7 (page 3 +1) is torn: {where}, kv.k.0 holds what slot 3 (page 1 +1) holds there"
    )


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_all_columns_of_a_torn_row_are_one_finding(page_size: int) -> None:
    world = deep_pool(page_size)
    slot, donor = world.request_of("B").slots[9], world.request_of("A").slots[20]
    _tear(world, slot, donor, first=16)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.evidence["rows"]) == ("KV303", [slot], 1)


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize(
    ("first", "last", "split", "part"), [(20, LAYERS, 20, "tail"), (0, 11, 10, "head")]
)
def test_a_tear_between_layers_is_named_with_the_layer(
    page_size: int, first: int, last: int, split: int, part: str
) -> None:
    world = deep_pool(page_size)
    slots = world.request_of("B").slots[9:12]
    _tear_layers(world, slots, first=first, last=last)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV303", slots, ["B"])
    assert (finding.evidence["part"], finding.evidence["split_layer"]) == (part, split)
    assert list(finding.alternatives) == ["KV203", "KV301"]
    assert finding.settled_by


def test_digests_tell_a_tear_between_layers_and_none_within_a_row() -> None:
    world = deep_pool(16)
    slots = world.request_of("B").slots[9:12]
    _tear_layers(world, slots, first=20)
    other = world.request_of("A").slots[3]
    _tear(world, other, slots[0] + 3, first=16)
    findings = findings_of(world.dataset(snapshot=world.snapshot(digests_only=True)))
    assert [(found.rule, found.slots) for found in findings] == [
        ("KV303", slots), ("KV301", [other]),
    ]  # fmt: skip
    assert "KV303" in findings[1].alternatives


def test_two_torn_rows_are_two_findings() -> None:
    world = fixture_f(row_bytes=64, stamps=F_STAMPS)
    _tear(world, 7, 3, first=32)
    _tear(world, 4, 9, first=48)
    found = {(finding.rule, *finding.slots) for finding in findings_of(world)}
    assert found == {("KV303", 7), ("KV303", 4)}


def test_layers_in_the_middle_are_no_tear() -> None:
    world = deep_pool(16)
    _tear_layers(world, world.request_of("B").slots[9:12], first=5, last=9)
    assert finding_of(world).rule == "KV301"


def test_damage_within_a_row_whose_twin_is_elsewhere_is_no_tear() -> None:
    world = fixture_f(row_bytes=64, stamps=F_STAMPS)
    for name in world.kv:
        world.kv[name][3] = world.kv[name][7]
    world.stamp_digests(3)
    for data in world.kv.values():
        data[7, :16] ^= 0x5A
    assert not report_of(world, select=("KV303",)).findings


@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.overwrite_bytes(world, 7),
        lambda world: corruptions.swap_pages(world, 1, 2, records=False),
        lambda world: corruptions.zero_slots(world, [8, 9], records=False),
        lambda world: corruptions.flip_bit(world, "kv.k.0", 7),
    ],
    ids=["T03", "T08", "T10", "T17"],
)
@pytest.mark.parametrize("options", [{"mode": RealKvHashMode.ALL}, {"stamps": F_STAMPS}])
def test_other_damage_is_no_tear(
    damage: corruptions.Corruption, options: dict[str, object]
) -> None:
    world = fixture_f(row_bytes=64, **options)
    damage(world)
    assert not report_of(world, select=("KV303",)).findings
