from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.dataset import AuditedPool
from kvaudit.core.sequences import SequenceState
from kvaudit.errors import ConfigError
from kvaudit.runner.inject import index as inject_index
from kvaudit.runner.inject.chains import Damage
from kvaudit.runner.inject.copy import PoolCopy
from tests.helpers.injecting import copy_of, pool_for
from tests.helpers.worlds import fixture_f


def _applied(rule: str, fault: Callable[[PoolCopy], Damage]) -> tuple[PoolCopy, Damage]:
    copy = copy_of(pool_for(rule, 4))
    return copy, fault(copy)


def _changed(rule: str, copy: PoolCopy) -> list[tuple[int, int]]:
    """(before, now) of every slot of the sequences that is another one."""
    before, now = pool_for(rule, 4).sequences[0].slots, copy.sequences[0].slots
    return [(int(a), int(b)) for a, b in zip(before, now, strict=True) if a != b]


def test_an_alias_takes_the_slot_of_another_request_with_what_was_written_there() -> None:
    copy, damage = _applied("KV101", inject_index.slot_alias)
    [(own, taken)] = _changed("KV101", copy)
    assert damage.slots == [taken]
    assert len(damage.request_ids) == 2
    now = copy.done().snapshot
    assert (now.canary["k.tail"].read()[own] == now.canary["k.tail"].read()[taken]).all()


def test_a_slot_out_of_range_is_the_last_of_its_request() -> None:
    copy, damage = _applied("KV102", inject_index.slot_out_of_range)
    [(_, now)] = _changed("KV102", copy)
    assert damage.slots == [now]
    assert now >= copy.snapshot.num_slots
    assert copy.columns == []


def test_a_broken_link_is_one_entry_of_one_launch() -> None:
    pool = pool_for("KV103", 4)
    copy = copy_of(pool)
    damage = inject_index.broken_link(copy)
    before, now = pool.plans[0].launches[0].plan, copy.plans[0].launches[0].plan
    entries = np.flatnonzero(before.verify_prev_slot_indices != now.verify_prev_slot_indices)
    assert before.verify_slot_indices[entries].tolist() == damage.slots


def test_a_disabled_launch_is_nowhere_to_break_a_link() -> None:
    world = fixture_f()
    pool = AuditedPool(snapshot=world.snapshot(), plans=(world.plan(enable=False),))
    with pytest.raises(ConfigError, match="it needs a plan"):
        inject_index.broken_link(copy_of(pool))


def test_a_length_reaches_one_past_what_there_is() -> None:
    copy, damage = _applied("KV104", inject_index.length_mismatch)
    part = copy.sequences[0]
    number = part.request_ids.index(damage.request_ids[0])
    assert part.kv_lens[number] == len(part.slots_of(number)) + 1
    assert not damage.slots


@pytest.mark.parametrize(
    ("rule", "fault", "column", "num_changed"),
    [
        ("KV105", inject_index.swa_map_stale, "swa_slot", 1),
        ("KV106", inject_index.live_slot_free, "alloc.state", 1),
        ("KV107", inject_index.double_free, "alloc.ref", 1),
        ("KV108", inject_index.refcount_mismatch, "alloc.ref", 1),
    ],
)
def test_a_fault_of_the_allocator_is_in_its_column_alone(
    rule: str, fault: Callable[[PoolCopy], Damage], column: str, num_changed: int
) -> None:
    copy, damage = _applied(rule, fault)
    before = pool_for(rule, 4).snapshot.evidence[column].read()
    now = copy.done().snapshot.evidence[column].read()
    changed = copy.snapshot.slots[before != now]
    assert len(changed) == num_changed
    assert set(changed.tolist()) <= set(damage.slots)
    assert copy.columns == [column]


def test_a_waiting_request_holds_no_reference_to_let_go_of() -> None:
    pool = pool_for("KV108", 4)
    part = pool.sequences[0]
    waiting = replace(part, states=[SequenceState.WAITING] * part.num_sequences)
    with pytest.raises(ConfigError, match="it needs a running request"):
        inject_index.refcount_mismatch(copy_of(replace(pool, sequences=(waiting,))))
