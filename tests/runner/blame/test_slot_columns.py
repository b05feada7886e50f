from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.backends.availability import choose
from kvaudit.constants import RealKvHashMode
from kvaudit.core.launch_tag import KvHalf
from kvaudit.core.slot_facts import ColumnDigests
from kvaudit.core.snapshot import Snapshot
from kvaudit.runner.blame.slot_columns import SlotColumns
from tests.helpers import corruptions
from tests.helpers.stamped_pools import F_STAMPS
from tests.helpers.worlds import World, build, fixture_f, fold

K_SOURCES = ("kv.k.0", "kv.k.1")


def _columns(pool: World | Snapshot, row: int = 7) -> SlotColumns:
    backend, _ = choose("reference", kv_bytes=0, num_entries=0)
    snapshot = pool.snapshot() if isinstance(pool, World) else pool
    return SlotColumns(snapshot=snapshot, backend=backend, row=row)


def _digests(pool: World | Snapshot, row: int = 7) -> dict[str, ColumnDigests]:
    return {column.name: column for column in _columns(pool, row).digests}


def test_stamped_and_recomputed_digests_are_those_of_the_model() -> None:
    world = fixture_f(stamps=F_STAMPS)
    stamp = fold(world.kv["kv.v.1"][7].tobytes())
    corruptions.flip_bit(world, "kv.v.1", 7)
    column = _digests(world)["kv.v.1"]
    assert (column.stamped, column.dumped) == (stamp, None)
    assert column.recomputed == fold(world.kv["kv.v.1"][7].tobytes()) != stamp
    assert (column.differs, column.held, column.written) == (True, column.recomputed, stamp)


def test_columns_stand_in_layer_order() -> None:
    assert list(_digests(fixture_f(stamps=F_STAMPS))) == ["kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1"]


def test_a_dump_of_digests_has_no_bytes_to_recompute() -> None:
    world = fixture_f(stamps=F_STAMPS)
    column = _digests(world.snapshot(digests_only=True))["kv.k.0"]
    assert column.dumped == column.stamped == column.held
    assert (column.recomputed, column.differs) == (None, False)


def test_a_stamp_without_bytes_or_digests_tells_nothing() -> None:
    column = _digests(fixture_f(stamps=F_STAMPS).snapshot(kv={}))["kv.k.0"]
    assert (column.held, column.differs) == (None, None)


def test_stamps_that_are_zero_throughout_are_none() -> None:
    world = fixture_f(stamps=F_STAMPS)
    world.stamps["kv.v.0"][:] = 0
    digests = _digests(world)
    assert digests["kv.v.0"].stamped is None
    assert digests["kv.v.1"].stamped is not None


def test_a_zero_stamp_among_others_is_what_zero_bytes_hash_to() -> None:
    column = _digests(fixture_f(stamps=F_STAMPS), row=12)["kv.k.0"]
    assert (column.stamped, column.recomputed, column.pattern) == (0, 0, "all zero")


@pytest.mark.parametrize(("kept", "pattern"), [(8, "zero from byte 8 on"), (24, "")])
def test_bytes_that_end_in_zeros_say_from_where(kept: int, pattern: str) -> None:
    world = build(row_bytes=32, stamps=("kv.k.0",)).request("A", tokens=[11], slots=[7]).done()
    world.kv["kv.k.0"][7, kept:] = 0
    assert _digests(world)["kv.k.0"].pattern == pattern


def test_nan_is_counted_where_the_dtype_is_known() -> None:
    world = fixture_f()
    world.kv["kv.k.0"][7, :4].view("<u2")[:] = 0x7FC0
    snapshot = world.snapshot()
    column = replace(snapshot.kv["kv.k.0"], dtype="bfloat16")
    named = replace(snapshot, kv={**snapshot.kv, "kv.k.0": column})
    assert _digests(named)["kv.k.0"].pattern == "2 elements are NaN or infinite"
    assert _digests(snapshot)["kv.k.0"].pattern == ""


def test_the_combined_hash_is_that_of_the_model() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamped_columns=F_STAMPS)
    columns = _columns(world)
    assert columns.combined == {
        KvHalf.K: world.real_kv_hash(7, "k"),
        KvHalf.V: world.real_kv_hash(7, "v"),
    }
    assert columns.expected_real_kv_hash("k.tail") == world.real_kv_hash(7, "k")
    assert columns.expected_real_kv_hash("k.head") == 0


def test_mode_partial_covers_the_leading_bytes() -> None:
    world = build(row_bytes=32, mode=RealKvHashMode.PARTIAL).request("A", tokens=[1], slots=[7])
    columns = _columns(world.done())
    assert columns.expected_real_kv_hash("k.tail") == world.done().real_kv_hash(7, "k")
    assert columns.expected_real_kv_hash("v.tail") == 0


def test_mode_none_expects_0_and_a_column_that_lacks_expects_nothing() -> None:
    assert _columns(fixture_f()).expected_real_kv_hash("k.tail") == 0
    snapshot = fixture_f(mode=RealKvHashMode.ALL).snapshot(kv={})
    assert _columns(snapshot).expected_real_kv_hash("k.tail") is None
    partial = fixture_f(mode=RealKvHashMode.PARTIAL).snapshot(digests_only=True)
    assert _columns(partial).expected_real_kv_hash("k.tail") is None


def test_a_wrong_combined_hash_is_solved_for_each_of_its_columns() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamped_columns=K_SOURCES)
    was = {name: fold(world.kv[name][7].tobytes()) for name in K_SOURCES}
    corruptions.flip_bit(world, "kv.k.1", 7)
    digests = _digests(world)
    assert digests["kv.k.1"].solved == digests["kv.k.1"].written == was["kv.k.1"]
    assert digests["kv.k.0"].solved not in (None, was["kv.k.0"])
    assert digests["kv.v.0"].solved is None
    assert digests["kv.k.1"].differs is None


@pytest.mark.parametrize(("row_bytes", "covered"), [(16, None), (32, 16)])
def test_in_mode_partial_the_leading_bytes_are_solved_for(
    row_bytes: int, covered: int | None
) -> None:
    world = (
        build(row_bytes=row_bytes, mode=RealKvHashMode.PARTIAL, stamped_columns=K_SOURCES)
        .request("A", tokens=[11], slots=[7])
        .done()
    )
    was = fold(world.kv["kv.k.1"][7, :16].tobytes())
    corruptions.flip_bit(world, "kv.k.1", 7)
    column = _digests(world)["kv.k.1"]
    assert (column.solved, column.solved_bytes) == (was, covered)
    assert column.written == (None if covered else was)


def test_nothing_is_solved_of_what_has_its_own_stamp_or_no_record() -> None:
    world = fixture_f(mode=RealKvHashMode.ALL, stamped_columns=K_SOURCES, stamps=K_SOURCES)
    corruptions.flip_bit(world, "kv.k.1", 7)
    assert [column.solved for column in _columns(world).digests] == [None] * 4
    without = replace(world.snapshot(), stamped={})
    assert any(column.solved for column in _columns(without).digests)
    world.records["k.tail"][7] = 0
    without = replace(world.snapshot(), stamped={})
    assert not any(column.solved for column in _columns(without).digests)


def test_hashed_bytes_are_those_that_are_read() -> None:
    world = fixture_f()
    snapshot = world.snapshot()
    column = replace(snapshot.kv["kv.k.0"], read_bytes=12)
    columns = _columns(replace(snapshot, kv={"kv.k.0": column}))
    assert np.array_equal(columns._hashed_bytes("kv.k.0"), world.kv["kv.k.0"][7:8, :12])
    assert columns._hashed_bytes("kv.v.0") is None
