from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvaudit.core.kv_column import ArrayColumn
from kvaudit.core.sequences import SequenceState
from tests.helpers.comparing import HOST, THERE, dataset_of, dumped, side_of


def _named(side, contents) -> dict[int, int]:
    slots = side.snapshot.slots[contents.rows].tolist()
    return dict(zip(slots, contents.ids.tolist(), strict=True))


def test_records_name_the_same_content_alike_wherever_it_lies() -> None:
    here, there = side_of(dumped()), side_of(dumped(THERE, key=HOST), "B")
    one, other = _named(here, here.stamped), _named(there, there.stamped)
    assert sorted(one.values()) == sorted(other.values())
    assert one[4] == other[12]
    assert len(set(one.values())) == 8


def test_tokens_of_sequences_name_it_where_there_are_no_records() -> None:
    here, there = (
        side_of(dumped(canary=())),
        side_of(dumped(THERE, key=HOST, canary=()), "B"),
    )
    assert here.stamped is None
    one, other = _named(here, here.told), _named(there, there.told)
    assert one[4] == other[12]
    assert len(set(one.values())) == 8


def test_without_tokens_sequences_name_nothing() -> None:
    world = dumped(canary=())
    assert side_of(world.dataset(tokens=False)).told is None


def test_extra_keys_tell_the_same_tokens_apart() -> None:
    plain, keyed = side_of(dumped()), side_of(dumped(extra_keys=("lora", None)))
    one, other = (_named(s, s.keyed(s.stamped)) for s in (plain, keyed))
    assert one[2] != other[2]
    assert one[6] == other[6]
    assert not plain.has_extra_keys
    assert keyed.has_extra_keys


def test_reserved_free_and_arriving_slots_hold_nothing_by_right() -> None:
    world = dumped()
    world.request_of("B").state = SequenceState.IN_FLIGHT
    states = np.full(16, "live", dtype=object)
    states[[3, 11]] = "free"
    world.evidence["alloc.state"] = states
    side = side_of(world)
    usable = side.snapshot.slots[side.usable].tolist()
    assert not {0, 6, 7, 8, 9, 11} & set(usable)
    # An allocator that calls a live slot free is KV106, and no reason not to compare the slot.
    assert {2, 3, 4, 5, 10} <= set(usable)


def test_records_that_were_never_stamped_are_no_records() -> None:
    snapshot = dumped().snapshot()
    steps = np.zeros(16, dtype=np.int64)
    steps[4] = -1
    column = ArrayColumn(name="stamped_step", values=steps)
    side = side_of(replace(snapshot, evidence={"stamped_step": column}))
    assert 4 not in side.snapshot.slots[side.stamped.rows]
    assert not side.records("k.tail")[4].any()


def test_a_dump_without_rows_holds_nothing() -> None:
    side = side_of(dataset_of(dumped().dataset(snapshot=dumped().snapshot(slots=()))))
    assert side.stamped is None
    assert side.told is None
    assert not side.usable.size
