"""KV304: bits of the KV bytes that turned over."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from tests.helpers import corruptions
from tests.helpers.diagnosing import finding_of, findings_of, report_of
from tests.helpers.long_pools import long_pool
from tests.helpers.stamped_pools import F_STAMPS, LAYERS, deep_pool, shared_prefix
from tests.helpers.worlds import World, fixture_f

JUDGING = [RealKvHashMode.PARTIAL, RealKvHashMode.ALL]


@pytest.mark.parametrize("tokens", [False, True], ids=["real", "token"])
@pytest.mark.parametrize("mode", JUDGING)
def test_t17_a_flipped_bit_is_named_with_its_column_and_place(
    mode: RealKvHashMode, tokens: bool
) -> None:
    world = fixture_f(mode=mode)
    corruptions.flip_bit(world, "kv.k.0", 7, bit=77)
    finding = finding_of(world, tokens=tokens)
    assert (finding.rule, finding.slots, finding.request_ids) == ("KV304", [7], ["B"])
    assert finding.evidence["column"] == "kv.k.0"
    assert (finding.evidence["byte"], finding.evidence["bits"]) == (9, [13])
    assert not finding.alternatives
    assert finding.summary == (
        "1 bit of kv.k.0 at slot 7 (page 3 +1) turned over, in byte 9 (bit 13 of the word)"
    )


def test_t31_a_bit_behind_the_leading_bytes_is_found_by_all_alone() -> None:
    for mode, rules in ((RealKvHashMode.PARTIAL, []), (RealKvHashMode.ALL, ["KV304"])):
        world = fixture_f(mode=mode, row_bytes=32)
        corruptions.flip_bit(world, "kv.k.0", 7, bit=8 * 20)
        assert [finding.rule for finding in findings_of(world)] == rules


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("bit", [0, 100, 255])
def test_any_bit_of_any_layer_is_found_from_its_stamps(page_size: int, bit: int) -> None:
    world = deep_pool(page_size)
    slot = world.request_of("B").slots[17]
    corruptions.flip_bit(world, "kv.v.21", slot, bit=bit)
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV304", [slot])
    assert (finding.evidence["column"], finding.evidence["byte"]) == ("kv.v.21", bit // 8)


def test_the_column_is_solved_from_a_combined_hash_of_many() -> None:
    names = tuple(f"kv.k.{layer}" for layer in range(LAYERS))
    world = deep_pool(16, stamps=(), mode=RealKvHashMode.ALL, stamped_columns=names)
    slot = world.request_of("A").slots[9]
    corruptions.flip_bit(world, "kv.k.13", slot, bit=70)
    finding = finding_of(world)
    assert (finding.rule, finding.slots) == ("KV304", [slot])
    assert (finding.evidence["column"], finding.evidence["byte"]) == ("kv.k.13", 8)


def test_a_combined_hash_and_a_stamp_of_one_flip_are_one_finding() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.0", 7)
    finding = finding_of(world)
    assert (finding.evidence["rows"], finding.evidence["launches"]) == (2, ["TAIL_K_FULL"])


def test_flips_of_two_slots_are_two_findings() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.1", 3)
    corruptions.flip_bit(world, "kv.v.0", 8)
    found = {(finding.rule, *finding.slots) for finding in findings_of(world)}
    assert found == {("KV304", 3), ("KV304", 8)}


def test_digests_alone_give_the_last_word() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.1", 3, bit=64 + 5)
    finding = finding_of(world.dataset(snapshot=world.snapshot(digests_only=True)))
    assert (finding.rule, finding.slots, finding.evidence["bits"]) == ("KV304", [3], [5])
    assert "in its last word" in finding.summary


def test_digests_alone_do_not_give_another_word() -> None:
    world = fixture_f(stamps=F_STAMPS)
    corruptions.flip_bit(world, "kv.k.1", 3, bit=5)
    dataset = world.dataset(snapshot=world.snapshot(digests_only=True))
    assert not report_of(dataset, select=("KV304",)).findings


def test_all_that_share_a_flipped_slot_are_tainted() -> None:
    world = shared_prefix()
    corruptions.flip_bit(world, "kv.k.0", 3)
    assert finding_of(world).request_ids == ["A", "C"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda world: corruptions.overwrite_bytes(world, 7),
        lambda world: corruptions.swap_pages(world, 1, 2, records=False),
        lambda world: corruptions.zero_slots(world, [8, 9], records=False),
        lambda world: corruptions.flip_record_bit(world, 7, corruptions.REAL_KV_HASH),
    ],
    ids=["T03", "T08", "T10", "T22"],
)
@pytest.mark.parametrize("mode", JUDGING)
def test_other_damage_is_no_flip(damage: corruptions.Corruption, mode: RealKvHashMode) -> None:
    world: World = fixture_f(mode=mode)
    damage(world)
    assert not report_of(world, select=("KV304",)).findings


def test_a_clean_pool_has_no_finding() -> None:
    assert not findings_of(fixture_f(mode=RealKvHashMode.ALL, stamps=F_STAMPS))


def _zero(world: World) -> None:
    for name in ("R0", "R1"):
        corruptions.zero_slots(world, world.request_of(name).slots[64:], records=False)


def _exchange(world: World) -> None:
    pairs = zip(world.request_of("R0").slots[64:], world.request_of("R1").slots[64:], strict=True)
    one, other = np.array(list(pairs)).T
    for data in world.kv.values():
        data[one], data[other] = data[other], data[one]


@pytest.mark.parametrize(("damage", "rule"), [(_zero, "KV302"), (_exchange, "KV310")])
@pytest.mark.parametrize("options", [{"stamps": F_STAMPS[:2]}, {"mode": RealKvHashMode.ALL}])
def test_a_flip_behind_thousands_of_rows_whose_hashes_say_what_they_hold_is_found(
    damage: corruptions.Corruption, rule: str, options: dict[str, object]
) -> None:
    world = long_pool(64, num_pages=20, **options)
    damage(world)
    slot = world.request_of("R2").slots[100]
    corruptions.flip_bit(world, "kv.k.0", slot)
    found = {finding.rule: finding.slots for finding in findings_of(world)}
    assert set(found) == {rule, "KV304"}
    assert found["KV304"] == [slot]
