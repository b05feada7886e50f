from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from kvaudit.core.snapshot import PoolKey
from tests.helpers.comparing import HOST, THERE, change_byte, clear, compared, dumped, finding_of
from tests.helpers.corruptions import shift_positions, wrong_token
from tests.helpers.worlds import World


def _damaged(page_size: int) -> tuple[World, World, int]:
    """A request on scattered pages of a larger pool, and the same moved by a page."""
    length = 6 * max(page_size, 4)
    pages = np.random.default_rng(1).permutation(np.arange(1, 12 * max(1, 16 // page_size)))
    slots = (pages[:, None] * page_size + np.arange(page_size)).ravel()
    here, there = slots[: 2 * length], slots[length : 3 * length]
    num_slots = int(slots.max()) + 1
    dumps = [
        dumped(
            (part[:4].tolist(), part[4:8].tolist()),
            key=key,
            num_slots=num_slots,
            page_size=page_size,
        )
        for part, key in ((here, PoolKey(tier="device")), (there, HOST))
    ]
    return dumps[0], dumps[1], int(there[2])


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_one_changed_byte_is_named_at_any_page_size(page_size: int) -> None:
    left, right, slot = _damaged(page_size)
    change_byte(right, slot, column="kv.k.1")
    found = finding_of(left, right)
    assert (found.rule, found.slots, found.request_ids) == ("KV402", [slot], ["A"])
    assert "kv.k.1 byte 9 of 16" in found.summary
    assert f"(page {slot // page_size} +{slot % page_size})" in found.summary
    assert found.alternatives == ("KV304", "KV301")


def test_the_summary_names_the_leg_the_slot_and_where_it_lies_on_the_left() -> None:
    damaged = dumped(THERE, key=HOST)
    change_byte(damaged, 12)
    found = finding_of(dumped(), damaged)
    assert found.summary == (
        "the leg A->B (device -> host) does not preserve what it carries: slot 12 (page 6 +0), which "
        "is slot 4 (page 2 +0) of A: kv.v.1 byte 9 of 16 is 3a, and not 3e"
    )
    assert found.key == HOST
    [example] = found.evidence["examples"]
    assert (example["left_slot"], example["request_id"], example["position"]) == (4, "A", 2)


def test_what_it_could_be_follows_from_what_is_there_instead() -> None:
    zero, lost, gone, foreign, late, flipped = (dumped(THERE, key=HOST) for _ in range(6))
    for data in zero.kv.values():
        data[[12, 13]] = 0
    assert finding_of(dumped(), zero).alternatives == ("KV302", "KV311")
    clear(lost, [12])
    assert finding_of(dumped(), lost).alternatives == ("KV311", "KV209")
    for name, records in gone.records.items():
        records[12] = 0
        foreign.records[name][12] = foreign.records[name][3]
        late.records[name][12] = (77, 9, 5, 5)
        flipped.records[name][12, 0] ^= np.uint64(4)
    assert finding_of(dumped(), gone).alternatives == ("KV209", "KV311")
    assert finding_of(dumped(), foreign).alternatives[0] == "KV202"
    assert finding_of(dumped(), late).alternatives == ("KV203", "KV202")
    assert finding_of(dumped(), flipped).alternatives == ("KV208",)


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (partial(shift_positions, request_id="A", first=1, delta=1), "KV204"),
        (partial(wrong_token, request_id="A", position=1, token=99), "KV201"),
    ],
)
def test_records_that_are_chained_wrongly_from_some_position_on_are_told_by_the_first(
    damage: Callable[[World], None], rule: str
) -> None:
    chained = dumped(THERE, key=HOST)
    damage(chained)
    assert finding_of(dumped(), chained).alternatives[0] == rule


def test_digests_alone_say_that_bytes_would_settle_it() -> None:
    damaged = dumped(THERE, key=HOST)
    change_byte(damaged, 12)
    left, right = (world.snapshot(digests_only=True) for world in (dumped(), damaged))
    found = finding_of(left, right)
    assert "kv.v.1 has another digest" in found.summary
    assert found.settled_by.startswith("bytes in both dumps")


def test_another_token_of_one_request_is_told_of_the_tables() -> None:
    other = dumped(THERE, key=HOST, canary=())
    other.request_of("A").tokens = [11, 12, 13, 99]
    found = finding_of(dumped(canary=()), other)
    assert "request A has token 14 in A and 99 in B at position 3" in found.summary
    assert found.request_ids == ["A"]


def test_requests_that_share_a_damaged_slot_are_all_tainted() -> None:
    left, right = dumped(), dumped(THERE, key=HOST)
    for world in (left, right):
        first = world.request_of("A")
        second = world.request_of("B")
        second.tokens[:2], second.slots[:2] = first.tokens[:2], first.slots[:2]
        world.stamp_request(second)
    change_byte(right, 10)
    assert finding_of(left, right).request_ids == ["A", "B"]


def test_equal_dumps_and_ranks_are_none_of_its_business() -> None:
    assert not compared(dumped(), dumped(THERE, key=HOST)).findings
    ranks = [dumped(key=PoolKey(rank=rank)) for rank in range(2)]
    ranks[1].records["k.tail"][4, 0] = 99
    assert not compared(*ranks, select=("KV402",)).findings
