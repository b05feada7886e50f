from __future__ import annotations

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool
from kvaudit.runner.inject.content import (
    clear_content,
    copy_content,
    copy_slots,
    put_content,
    stamp_content,
)
from tests.helpers.injecting import copy_of, named, stamped_world

ROWS = np.array([9, 4, 17])


def _pool(*, digests_only: bool = False, mode: RealKvHashMode = RealKvHashMode.ALL) -> AuditedPool:
    world = stamped_world(4, mode=mode)
    snapshot = world.snapshot(digests_only=digests_only)
    return AuditedPool(snapshot=snapshot, sequences=(world.sequences(),))


@pytest.mark.parametrize(
    ("digests_only", "mode"),
    [
        (False, RealKvHashMode.ALL),
        (True, RealKvHashMode.ALL),
        (False, RealKvHashMode.PARTIAL),
        (False, RealKvHashMode.NONE),
    ],
)
def test_other_content_is_found_until_it_is_stamped(
    digests_only: bool, mode: RealKvHashMode
) -> None:
    """The audit's own folds agree with what the damage stamps."""
    copy = copy_of(_pool(digests_only=digests_only, mode=mode))
    rows = copy.chains[0].rows[:3]
    put_content(copy, rows)
    assert {finding.rule for finding in named(copy.done())} == {"KV301"}
    stamp_content(copy, rows)
    assert named(copy.done()) == []


@pytest.mark.parametrize("digests_only", [False, True], ids=["bytes", "digests"])
def test_content_is_zeroed_in_the_columns_that_are_named(digests_only: bool) -> None:
    copy = copy_of(_pool(digests_only=digests_only))
    clear_content(copy, ROWS, names=["kv.v.1"])
    assert copy.columns == ["digest.v.1" if digests_only else "kv.v.1"]
    column = copy.digests("kv.v.1")[ROWS] if digests_only else copy.bytes_of("kv.v.1", ROWS)
    assert not column.any()


def test_slots_change_places_all_at_once() -> None:
    pool = _pool()
    copy = copy_of(pool)
    copy_slots(copy, ROWS[[0, 1]], ROWS[[1, 0]])
    snapshot = pool.snapshot
    now = copy.done().snapshot
    for rows, homes in ((ROWS[:1], ROWS[1:2]), (ROWS[1:2], ROWS[:1])):
        for before, after in (
            (snapshot.canary["k.tail"], now.canary["k.tail"]),
            (snapshot.stamped["kv.k.1"], now.stamped["kv.k.1"]),
        ):
            assert (after.read()[rows] == before.read()[homes]).all()
        data = snapshot.kv["kv.k.1"].data
        assert (copy.bytes_of("kv.k.1", rows) == data[homes]).all()


def test_content_alone_leaves_records_and_stamps() -> None:
    copy = copy_of(_pool())
    copy_content(copy, ROWS[:1], ROWS[1:2])
    assert sorted(copy.columns) == ["kv.k.0", "kv.k.1", "kv.v.0", "kv.v.1"]
