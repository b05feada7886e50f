"""Stamping an existing dump certifies what is there now."""

from __future__ import annotations

import numpy as np
import pytest

from kvaudit.backends.availability import choose
from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool, Dataset
from kvaudit.core.kv_column import ArrayKvColumn
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import Snapshot
from kvaudit.errors import ConfigError, SnapshotInconsistent
from kvaudit.runner.stamp import computed, stamp
from tests.helpers.worlds import World, build, fixture_f

EVERY = ("kv.k.0", "kv.v.0", "kv.k.1", "kv.v.1")


@pytest.fixture(params=["reference", "cpu"])
def stamped(request):
    """Stamp a pool with one backend."""

    def stamp_pool(pool: AuditedPool, **options: object) -> Snapshot:
        return stamp(pool, backend=choose(request.param, kv_bytes=0, num_entries=0)[0], **options)

    return stamp_pool


def _pool(world: World, **snapshot: object) -> AuditedPool:
    return AuditedPool(
        snapshot=world.snapshot(canary={}, stamped={}, **snapshot), sequences=(world.sequences(),)
    )


def test_the_records_are_those_an_engine_would_have_written(stamped) -> None:
    world = fixture_f(
        mode=RealKvHashMode.ALL, stamped_columns=EVERY, canary=("k.tail", "v.tail"), stamps=EVERY
    )
    snapshot = stamped(_pool(world), combined=EVERY)
    for name, records in world.records.items():
        assert snapshot.canary[name].read().view(np.uint64).tolist() == records.tolist()
    for name, stamps in world.stamps.items():
        values = snapshot.stamped[name].read().view(np.uint64)
        assert values[2:10].tolist() == stamps[2:10].tolist()


def test_a_stamped_pool_reads_clean_and_a_later_flip_does_not(stamped, run) -> None:
    world = fixture_f()
    pool = _pool(world)
    snapshot = computed(stamped(pool))
    dataset = Dataset(pools=[AuditedPool(snapshot=snapshot, sequences=pool.sequences)])
    assert run(dataset).verdict is Verdict.CLEAN
    column = snapshot.kv["kv.v.1"]
    assert isinstance(column, ArrayKvColumn)
    column.data[7, 3] ^= 1
    assert [(row.slot, row.columns) for row in run(dataset).violations] == [(7, ("kv.v.1",))]


def test_shared_prefixes_and_sparse_dumps_are_stamped_alike(stamped, run) -> None:
    world = (
        build()
        .request("A", tokens=[11, 12, 13, 14], slots=[2, 3, 4, 5])
        .request("C", tokens=[11, 12, 33, 34], slots=[2, 3, 8, 9], shared=2)
        .done()
    )
    for slots in (None, [2, 3, 4, 5, 8, 9]):
        pool = _pool(world, slots=slots)
        stamped_pool = AuditedPool(snapshot=stamped(pool), sequences=pool.sequences)
        report = run(Dataset(pools=[stamped_pool]))
        assert report.verdict is Verdict.CLEAN
        assert report.to_dict()["coverage"]["records"]["checked"] == 16


def test_a_plan_stamps_like_the_sequences(stamped) -> None:
    world = fixture_f()
    by_plan = AuditedPool(
        snapshot=world.snapshot(canary={}), plans=(world.plan(padding=2, names=False),)
    )
    one, other = stamped(_pool(world)), stamped(by_plan)
    assert one.canary["k.tail"].read().tolist() == other.canary["k.tail"].read().tolist()


def test_slot_0_is_stamped_where_it_is_real(stamped, run) -> None:
    world = build(reserved="none").request("A", tokens=[1, 2, 3], slots=[0, 1, 5]).done()
    pool = _pool(world)
    snapshot = stamped(pool)
    assert snapshot.canary["k.tail"].read()[0, 0] == 1
    dataset = Dataset(pools=[AuditedPool(snapshot=snapshot, sequences=pool.sequences)])
    assert run(dataset).verdict is Verdict.CLEAN


def test_digests_stand_in_for_bytes_that_were_not_dumped(stamped) -> None:
    world = fixture_f()
    snapshot = stamped(_pool(world, digests_only=True))
    assert snapshot.stamped["kv.k.0"].read().tolist() == snapshot.digests["kv.k.0"].read().tolist()


def test_the_stamped_step_says_who_was_stamped(stamped) -> None:
    world = fixture_f()
    world.evidence["stamped_step"] = np.full(16, -1)
    steps = stamped(_pool(world)).evidence["stamped_step"].read()
    assert np.flatnonzero(steps == 0).tolist() == list(range(2, 10))


def test_without_expectations_there_is_nothing_to_stamp(stamped) -> None:
    with pytest.raises(SnapshotInconsistent):
        stamped(AuditedPool(snapshot=fixture_f().snapshot()))


def test_a_combined_column_must_be_there(stamped) -> None:
    with pytest.raises(ConfigError):
        stamped(_pool(fixture_f()), combined=("kv.k.9",))


def test_a_combined_column_is_named_once(stamped) -> None:
    with pytest.raises(ConfigError, match=r"kv\.k\.0 is named twice"):
        stamped(_pool(fixture_f()), combined=("kv.k.0", "kv.v.0", "kv.k.0"))
