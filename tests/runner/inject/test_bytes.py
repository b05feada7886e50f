from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kvaudit.core.dataset import AuditedPool
from kvaudit.errors import ConfigError
from kvaudit.runner.inject import bytes as inject_bytes
from kvaudit.runner.inject.chains import Damage
from kvaudit.runner.inject.copy import PoolCopy
from tests.helpers.injecting import copy_of, pool_for, stamped_world
from tests.helpers.worlds import build


def _changed(pool: AuditedPool, copy: PoolCopy) -> dict[str, list[int]]:
    """Column to the slots whose bytes are others now."""
    found = {}
    for name, column in copy.done().snapshot.kv.items():
        before = pool.snapshot.kv[name].data
        rows = np.flatnonzero((column.read_rows(0, len(before)) != before).any(axis=1))
        if rows.size:
            found[name] = pool.snapshot.slots[rows].tolist()
    return found


@pytest.mark.parametrize(
    ("fault", "num_columns"),
    [
        (inject_bytes.bytes_changed, 4),
        (inject_bytes.zero_tail, 4),
        (inject_bytes.torn_row, 4),
        (inject_bytes.kv_bit_flip, 1),
        (inject_bytes.nan_inf, 4),
        (inject_bytes.reserved_slot_poisoned, 4),
        (inject_bytes.bytes_permuted, 4),
        (inject_bytes.not_arrived, 4),
    ],
)
def test_the_bytes_of_the_damaged_slots_change_and_no_others(
    fault: Callable[[PoolCopy], Damage], num_columns: int
) -> None:
    pool = pool_for("KV301", 4)
    for seed in range(4):
        copy = copy_of(pool, seed=seed)
        damage = fault(copy)
        changed = _changed(pool, copy)
        assert len(changed) == num_columns
        assert all(slots == damage.slots for slots in changed.values())


def test_a_flip_is_one_bit() -> None:
    pool = pool_for("KV304", 4)
    copy = copy_of(pool)
    [slot] = inject_bytes.kv_bit_flip(copy).slots
    [name] = copy.columns
    flipped = copy.bytes_of(name, np.array([slot])) ^ pool.snapshot.kv[name].data[slot]
    assert int(np.unpackbits(flipped).sum()) == 1


def test_k_and_v_change_places_in_every_layer() -> None:
    pool = pool_for("KV305", 4)
    copy = copy_of(pool)
    inject_bytes.wrong_layout(copy)
    now = copy.done().snapshot.kv
    for layer in (0, 1):
        size = pool.snapshot.num_rows
        for half, other in (("k", "v"), ("v", "k")):
            read = now[f"kv.{half}.{layer}"].read_rows(0, size)
            assert (read == pool.snapshot.kv[f"kv.{other}.{layer}"].data).all()


def test_a_stale_side_buffer_leaves_the_layers_alone() -> None:
    pool = pool_for("KV308", 4)
    side = "kv.side.scales"
    data = np.arange(pool.snapshot.num_rows * 4, dtype=np.uint32).view(np.uint8).reshape(-1, 16)
    columns = {
        side: replace(pool.snapshot.kv["kv.k.0"], name=side, data=data, read_bytes=16, dtype="")
    }
    stamped = {**pool.snapshot.stamped, side: pool.snapshot.stamped["kv.k.0"]}
    snapshot = replace(pool.snapshot, kv={**pool.snapshot.kv, **columns}, stamped=stamped)
    copy = copy_of(replace(pool, snapshot=snapshot))
    inject_bytes.side_buffer_stale(copy)
    assert copy.columns == [side]


@pytest.mark.parametrize(
    ("fault", "needs"),
    [
        (inject_bytes.torn_row, "stamped KV bytes"),
        (inject_bytes.nan_inf, "KV bytes of a known float type"),
        (inject_bytes.reserved_slot_poisoned, "KV bytes of a known float type"),
        (inject_bytes.side_buffer_stale, "a stamped side buffer"),
    ],
)
def test_what_digests_alone_do_not_show_is_refused(
    fault: Callable[[PoolCopy], Damage], needs: str
) -> None:
    with pytest.raises(ConfigError, match=needs):
        fault(copy_of(pool_for("KV301", 4, digests_only=True)))


@pytest.mark.parametrize(
    "fault", [inject_bytes.sentinel_write, inject_bytes.reserved_slot_poisoned]
)
def test_a_dump_without_a_reserved_slot_is_refused(fault: Callable[[PoolCopy], Damage]) -> None:
    pool = pool_for("KV307", 4)
    world = stamped_world(4)
    snapshot = world.snapshot(slots=range(4, world.num_slots))
    kv = {name: replace(column, dtype="bfloat16") for name, column in snapshot.kv.items()}
    with pytest.raises(ConfigError, match="a reserved slot in the dump"):
        fault(copy_of(replace(pool, snapshot=replace(snapshot, kv=kv))))


def test_the_only_request_of_a_pool_cannot_go_missing() -> None:
    """Without any record left, its columns count as never stamped."""
    world = build().request("A", tokens=[11, 12, 13], slots=[2, 3, 4]).done()
    pool = AuditedPool(snapshot=world.snapshot(), sequences=(world.sequences(),))
    with pytest.raises(ConfigError, match="records of other requests"):
        inject_bytes.not_arrived(copy_of(pool))


def test_other_content_in_the_last_slot_of_a_pool_could_be_an_index_of_minus_one() -> None:
    world = build(num_slots=4, stamps=("kv.k.0",))
    pool_world = world.request("A", tokens=[11, 12], slots=[2, 3]).done()
    pool = AuditedPool(snapshot=pool_world.snapshot(), sequences=(pool_world.sequences(),))
    with pytest.raises(ConfigError, match="another slot than the pool's last"):
        inject_bytes.bytes_changed(copy_of(pool, position=1))
    assert inject_bytes.bytes_changed(copy_of(pool, position=0)).slots == [2]
