"""KV309: padding rows and indices of -1 on real slots."""

from __future__ import annotations

import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.stamped_pools import F_STAMPS, deep_pool
from tests.helpers.worlds import World, build, content, fixture_f


def _write_padding(world: World, slot: int) -> None:
    """A padding row leaves the same bytes on slot 0 and on a real slot."""
    for name, data in world.kv.items():
        data[[0, slot]] = content(name, 0, 0, data.shape[1])


@pytest.mark.parametrize(
    "options",
    [
        {"stamps": F_STAMPS},
        {"mode": RealKvHashMode.ALL},
        {"mode": RealKvHashMode.PARTIAL},
        {"mode": RealKvHashMode.ALL, "stamped_columns": ("kv.k.0", "kv.k.1"), "stamps": F_STAMPS},
    ],
    ids=["stamps", "all", "partial", "both"],
)
def test_a_slot_that_holds_what_slot_0_holds_was_written_by_padding(
    options: dict[str, object],
) -> None:
    world = fixture_f(**options)
    _write_padding(world, 7)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV309", [7], ["B"])
    assert finding.summary == (
        "slot 7 (page 3 +1) holds the bytes of the reserved slot 0 (page 0 +0): "
        "a padding row was written there"
    )
    assert not finding.alternatives


@pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_it_is_found_in_many_layers_at_any_page_size(page_size: int, digests_only: bool) -> None:
    world = deep_pool(page_size)
    slot = world.request_of("B").slots[20]
    _write_padding(world, slot)
    snapshot = world.snapshot(digests_only=digests_only)
    finding = finding_of(world.dataset(snapshot=snapshot))
    assert (finding.rule, finding.slots) == ("KV309", [slot])


def test_two_slots_are_two_findings() -> None:
    world = fixture_f(stamps=F_STAMPS)
    _write_padding(world, 3)
    _write_padding(world, 7)
    assert [(found.rule, found.slots) for found in findings_of(world)] == [
        ("KV309", [3]), ("KV309", [7]),
    ]  # fmt: skip


def _last(**options: object) -> World:
    """Request B ends on the last slot of the pool."""
    return (
        build(**{"stamps": F_STAMPS, **options})
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("B", tokens=[21, 22, 23, 24], slots=[12, 13, 14, 15])
        .done()
    )


def test_the_last_slot_is_what_an_index_of_minus_one_names() -> None:
    world = _last()
    corruptions.overwrite_bytes(world, 15)
    finding = finding_of(world)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV309", [15], ["B"])
    assert list(finding.alternatives) == ["KV203", "KV301"]
    assert "out_cache_loc" in finding.settled_by


def test_the_last_slot_beside_others_is_no_sentinel() -> None:
    world = _last()
    for slot in (14, 15):
        corruptions.overwrite_bytes(world, slot, position=slot)
    assert finding_of(world).rule == "KV301"


@pytest.mark.parametrize("column", F_STAMPS)
def test_one_column_of_the_last_slot_alone_is_no_sentinel_but_could_be(column: str) -> None:
    """A padding row's write reaches K and V of every layer."""
    world = _last()
    world.kv[column][15] = content(column, 99, 15, world.kv[column].shape[1])
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV301", [15])
    assert list(finding.alternatives) == ["KV203", "KV303", "KV309"]


def test_a_combined_hash_does_not_say_that_all_of_the_last_slot_changed() -> None:
    world = _last(mode=RealKvHashMode.ALL, stamps=())
    corruptions.overwrite_bytes(world, 15)
    finding = finding_of(world)
    assert finding.rule == "KV301"
    assert "KV309" in finding.alternatives


@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.overwrite_bytes(world, 7),
        lambda world: corruptions.zero_slots(world, [8, 9], records=False),
        lambda world: corruptions.swap_pages(world, 1, 2, records=False),
    ],
    ids=["T03", "T10", "T08"],
)
@pytest.mark.parametrize("mode", RealKvHashMode)
def test_other_damage_is_no_sentinel(damage: corruptions.Corruption, mode: RealKvHashMode) -> None:
    world = fixture_f(mode=mode)
    damage(world)
    assert not report_of(world, select=("KV309",)).findings
