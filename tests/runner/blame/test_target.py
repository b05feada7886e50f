from __future__ import annotations

import pytest

from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.entries import ALL_ENTRIES
from kvaudit.core.sequences import SequenceState
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import ConfigError
from kvaudit.runner.blame.target import slot_meant
from kvaudit.runner.expectations import expectations_of
from tests.helpers.blaming import alone, by_plan
from tests.helpers.worlds import World, build, fixture_f


def _meant(target: str, pools: World | Dataset, *, snapshot: Snapshot | None = None) -> int:
    dataset = pools.dataset(snapshot=snapshot) if isinstance(pools, World) else pools
    pool: AuditedPool = dataset.pools[0]
    return slot_meant(
        target, snapshot=pool.snapshot, expectations=expectations_of(pool, ALL_ENTRIES)
    )


def _refused(target: str, pools: World | Dataset, **options: Snapshot) -> tuple[str, str]:
    with pytest.raises(ConfigError) as error:
        _meant(target, pools, **options)
    return error.value.message, error.value.hint


@pytest.mark.parametrize(("target", "slot"), [("7", 7), ("0", 0), ("A@0", 2), ("B@3", 9)])
def test_a_slot_or_a_request_and_a_position_are_understood(target: str, slot: int) -> None:
    assert _meant(target, fixture_f()) == slot


def test_a_request_whose_name_has_an_at_sign_is_found() -> None:
    world = build().request("user@3", tokens=[1, 2], slots=[4, 5]).done()
    assert _meant("user@3@1", world) == 5


def test_a_plan_tells_the_slot_of_a_position() -> None:
    assert _meant("B@2", by_plan(fixture_f(), padding=2)) == 8


def test_what_the_engine_added_to_stored_positions_is_no_part_of_a_position() -> None:
    world = fixture_f()
    assert _meant("A@1", world, snapshot=world.snapshot(position_offset=5)) == 3
    pool = AuditedPool(snapshot=world.snapshot(position_offset=1), plans=(world.plan(),))
    assert _meant("A@1", Dataset(pools=[pool])) == 4


def test_a_sequence_in_flight_has_slots_too() -> None:
    world = build().request("A", tokens=[1, 2], slots=[4, 5], state=SequenceState.IN_FLIGHT).done()
    assert _meant("A@1", world) == 5


@pytest.mark.parametrize("target", ["", "A@", "@", "A@x", "-1", "½", "7 ", "1" * 30, "A@--1"])
def test_other_words_are_refused_with_the_way_to_write_them(target: str) -> None:
    message, hint = _refused(target, fixture_f())
    assert message == f"{target!r} is neither a slot nor REQUEST@POS"
    assert "tale@9" in hint


def test_a_request_without_a_position_is_told_its_positions() -> None:
    message, hint = _refused("A", fixture_f())
    assert message.startswith("'A' is neither")
    assert hint == "add a position: it has KV at positions 0 to 3: write A@0"


def test_a_request_that_nobody_names_is_refused_with_those_that_there_are() -> None:
    assert _refused("C@1", fixture_f()) == (
        "no expectation names request 'C'",
        "the expectations name A, B",
    )
    assert _refused("C@1", alone(fixture_f().snapshot()))[1] == "no expectation names requests"
    assert _refused("A@1", by_plan(fixture_f(), names=False))[1] == "no expectation names requests"


def test_a_position_past_kv_len_is_refused_with_the_range_that_exists() -> None:
    world = build().request("A", tokens=[1, 2, 3, 4], slots=[2, 3, 4, 5], kv_len=2).done()
    assert _refused("A@2", world) == (
        "request 'A' has no KV at position 2",
        "it has KV at positions 0 to 1: write A@0",
    )


def test_a_position_before_the_window_is_refused() -> None:
    world = fixture_f()
    message, hint = _refused("A@1", world, snapshot=world.snapshot(window=2))
    assert message == "request 'A' has no KV at position 1"
    assert hint == "it has KV at positions 2 to 3: write A@2"


def test_a_plan_may_hold_any_position() -> None:
    world = fixture_f()
    pool = AuditedPool(snapshot=world.snapshot(position_offset=4), plans=(world.plan(),))
    assert _meant("A@-4", Dataset(pools=[pool])) == 2


def test_one_position_is_no_range() -> None:
    world = build().request("A", tokens=[1], slots=[2]).done()
    assert _refused("A@1", world)[1] == "it has KV at position 0: write A@0"


def test_a_request_without_any_kv_is_refused() -> None:
    world = build().request("A", tokens=[1], slots=[2], kv_len=0).done()
    assert _refused("A@0", world)[1] == "request 'A' has KV nowhere in this pool"


def test_a_position_in_several_slots_is_refused_with_them() -> None:
    world = build().request("A", tokens=[1], slots=[4]).request("A", tokens=[1], slots=[6]).done()
    assert _refused("A@0", world) == (
        "request 'A' has position 0 in 2 slots: 4, 6",
        "name one of the slots",
    )


def test_a_slot_outside_the_pool_is_refused() -> None:
    message, hint = _refused("16", fixture_f())
    assert message == "slot 16 is outside the pool, which has slots 0-15"
    assert "page x page_size" in hint
    world = fixture_f()
    world.requests[0].slots[2] = 400
    message, hint = _refused("A@2", world)
    assert "KV102" in hint
    assert message.startswith("slot 400, which request 'A' has at position 2, is outside the pool")


def test_a_slot_that_was_not_dumped_is_refused_with_those_beside_it() -> None:
    world = fixture_f()
    assert _refused("5", world, snapshot=world.snapshot(slots=[2, 3, 9])) == (
        "slot 5 is not in the snapshot",
        "it has 3 of the pool's slots, next to it 3 and 9",
    )
    _, hint = _refused("5", world, snapshot=world.snapshot(slots=[]))
    assert hint == "the snapshot has no slot at all"
