from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from kvaudit.core.dataset import AuditedPool
from kvaudit.errors import ConfigError
from kvaudit.runner.inject import records as inject_records
from kvaudit.runner.inject.chains import Damage
from kvaudit.runner.inject.copy import PoolCopy
from tests.helpers.injecting import copy_of, pool_for
from tests.helpers.worlds import build, fixture_f, link


def _changed(pool: AuditedPool, copy: PoolCopy) -> dict[int, list[int]]:
    """Slot to the words of its record in k.tail that are others now."""
    before = pool.snapshot.canary["k.tail"].read()
    now = copy.done().snapshot.canary["k.tail"].read()
    return {
        int(slot): np.flatnonzero(old != new).tolist()
        for slot, old, new in zip(pool.snapshot.slots, before, now, strict=True)
        if (old != new).any()
    }


def test_a_wrong_token_is_chained_by_all_that_follows() -> None:
    pool = pool_for("KV201", 4)
    copy = copy_of(pool, request_id="A", position=20)
    damage = inject_records.token_mismatch(copy)
    slots = pool.sequences[0].slots_of(0).tolist()
    assert damage == Damage(slots=[slots[20]], request_ids=["A"])
    assert _changed(pool, copy) == {slots[20]: [0], **{slot: [2] for slot in slots[21:]}}
    records = copy.records()[1]
    for slot, after in pairwise(slots[20:]):
        token, position, prev_hash = (int(word) for word in records[slot, :3])
        assert int(records[after, 2]) == link(prev_hash, token, position)


def test_shifted_positions_are_chained_and_their_first_predecessor_is_not() -> None:
    pool = pool_for("KV204", 4)
    copy = copy_of(pool, request_id="B", position=21)
    damage = inject_records.position_shift(copy)
    slots = pool.sequences[0].slots_of(1).tolist()
    assert damage.slots == sorted(slots[21:])
    assert _changed(pool, copy) == {slots[21]: [1], **{slot: [1, 2] for slot in slots[22:]}}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (inject_records.canary_bit_flip, 1),
        (inject_records.late_writer, 3),
        (inject_records.record_missing, 4),
    ],
)
def test_what_is_written_over_is_the_slots_of_the_damage_alone(
    fault: Callable[[PoolCopy], Damage], words: int
) -> None:
    pool = pool_for("KV208", 4)
    copy = copy_of(pool)
    damage = fault(copy)
    changed = _changed(pool, copy)
    assert sorted(changed) == damage.slots
    assert {len(each) for each in changed.values()} == {words}


def test_whole_pages_are_never_the_first_of_a_sequence() -> None:
    pool = pool_for("KV205", 4)
    firsts = {int(pool.sequences[0].slots_of(number)[0]) for number in range(3)}
    pages = inject_records.whole_pages(copy_of(pool))
    assert len(pages) == 3 * 5
    for chain, first, rows in pages:
        assert first + chain.first_position > 0
        assert not firsts & set(pool.snapshot.slots[rows].tolist())


@pytest.mark.parametrize(
    ("fault", "needs"),
    [
        (inject_records.page_permutation, "two whole pages of different positions"),
        (inject_records.slot_shift, "with 6 slots"),
    ],
)
def test_a_pool_that_is_too_small_is_refused(
    fault: Callable[[PoolCopy], Damage], needs: str
) -> None:
    world = build(page_size=4).request("A", tokens=[11, 12, 13, 14], slots=[4, 5, 6, 7]).done()
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),))
    with pytest.raises(ConfigError, match=needs):
        fault(copy_of(pool))


def test_unknown_tokens_show_no_wrong_one() -> None:
    world = fixture_f()
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(tokens=False),))
    with pytest.raises(ConfigError, match="the tokens of its requests"):
        inject_records.token_mismatch(copy_of(pool))


def test_shared_slots_leave_no_offset_of_the_whole_pool() -> None:
    builder = build().request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
    world = builder.request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2).done()
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),))
    with pytest.raises(ConfigError, match="that share no slots"):
        inject_records.undeclared_offset(copy_of(pool))


def test_pages_of_a_prompt_that_was_computed_twice_are_not_told_apart() -> None:
    builder = build(page_size=2, num_slots=24)
    builder.request("A", tokens=[1, 2, 3, 4, 5, 6, 15, 16], slots=range(2, 10))
    world = builder.request("B", tokens=[1, 2, 3, 4, 7, 8, 17, 18], slots=range(10, 18)).done()
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),))
    pages = inject_records.whole_pages(copy_of(pool))
    assert sorted(int(rows[0]) for _, _, rows in pages) == [8, 16]


def test_content_that_both_requests_have_anyway_is_not_foreign() -> None:
    builder = build(num_slots=24).request("A", tokens=[1, 2, 3, 4, 5, 6], slots=[2, 3, 4, 5, 6, 7])
    builder.request("B", tokens=[1, 2, 3, 4, 7, 8], slots=[8, 9, 10, 11, 12, 13])
    world = builder.done()
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),))
    for seed in range(6):
        damage = inject_records.foreign_content(copy_of(pool, seed=seed, request_id="A"))
        assert damage.slots == [7]
