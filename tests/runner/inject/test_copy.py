from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvaudit.constants import RealKvHashMode
from kvaudit.core.dataset import AuditedPool
from kvaudit.core.snapshot import DigestGrain
from kvaudit.errors import ConfigError
from tests.helpers.injecting import copy_of, pool_for
from tests.helpers.worlds import World, fixture_f, fold


def _pool(world: World, **changes: object) -> AuditedPool:
    return AuditedPool(snapshot=world.snapshot(**changes), sequences=(world.sequences(),))


def test_what_is_written_to_is_copied_and_the_rest_is_the_pools_own() -> None:
    pool = pool_for("KV208", 1)
    copy = copy_of(pool)
    copy.records()[0][5] = 1
    done = copy.done().snapshot
    assert done.canary["k.head"].read()[5].tolist() == [1, 1, 1, 1]
    assert pool.snapshot.canary["k.head"].read()[5].tolist() != [1, 1, 1, 1]
    assert done.kv == pool.snapshot.kv
    assert done.stamped["kv.k.0"] is pool.snapshot.stamped["kv.k.0"]


def test_columns_are_those_that_were_written_to() -> None:
    copy = copy_of(pool_for("KV301", 1))
    assert copy.columns == []
    row = np.array([3])
    copy.set_bytes("kv.v.1", row, copy.bytes_of("kv.k.0", row))
    copy.stamp_of("kv.v.1")[3] = 7
    assert copy.columns == ["kv.v.1", "stamped.v.1"]


def test_a_column_that_was_never_stamped_has_no_records_to_damage() -> None:
    world = fixture_f(canary=("k.tail", "v.tail"))
    world.records["v.tail"][:] = 0
    assert len(copy_of(_pool(world)).records()) == 1
    world.records["k.tail"][:] = 0
    with pytest.raises(ConfigError, match="it needs stamped records"):
        copy_of(_pool(world)).records()


def test_dumped_digests_follow_the_bytes() -> None:
    world = fixture_f()
    digests = world.snapshot(digests_only=True).digests
    copy = copy_of(_pool(world, digests=digests))
    data = np.full((1, 16), 9, dtype=np.uint8)
    copy.set_bytes("kv.k.0", np.array([4]), data)
    assert copy.done().snapshot.digests["kv.k.0"].read().view(np.uint64)[4] == fold(data.tobytes())


@pytest.mark.parametrize(
    ("mode", "digests_only", "watched"),
    [
        (RealKvHashMode.NONE, False, None),
        (RealKvHashMode.ALL, False, ["kv.k.0"]),
        (RealKvHashMode.ALL, True, ["kv.k.0"]),
        (RealKvHashMode.PARTIAL, False, ["kv.k.0"]),
        (RealKvHashMode.PARTIAL, True, None),
    ],
)
def test_what_a_combined_hash_covers_is_watched_if_it_can_be_recomputed(
    mode: RealKvHashMode, digests_only: bool, watched: list[str] | None
) -> None:
    copy = copy_of(_pool(fixture_f(mode=mode), digests_only=digests_only))
    if watched is None:
        with pytest.raises(ConfigError, match="real_kv_hash"):
            copy.watched()
    else:
        assert copy.watched() == watched


def test_digests_of_pages_are_no_content_of_slots() -> None:
    snapshot = replace(
        fixture_f().snapshot(digests_only=True), canary={}, digest_grain=DigestGrain.PAGE
    )
    pool = replace(_pool(fixture_f()), snapshot=snapshot)
    with pytest.raises(ConfigError, match="digests of slots"):
        copy_of(pool).content_columns()


def test_a_chain_is_of_the_request_that_was_asked_for_and_long_enough() -> None:
    pool = _pool(fixture_f())
    assert [c.request_id for c in copy_of(pool, request_id="B").chains_with(4)] == ["B"]
    with pytest.raises(ConfigError, match="a request in its sequences with 5 slots"):
        copy_of(pool).chains_with(5)
    with pytest.raises(ConfigError, match="request Z in its sequences"):
        copy_of(pool, request_id="Z").chains_with(1)


def test_a_place_is_the_one_that_was_asked_for() -> None:
    copy = copy_of(_pool(fixture_f()), position=2)
    chain = copy.chains_with(1)[0]
    assert copy.place_in(chain, first=0, last=4) == 2
    with pytest.raises(ConfigError, match="a position from 0 to 1 of "):
        copy.place_in(chain, first=0, last=2)


def test_an_evidence_column_must_be_there() -> None:
    with pytest.raises(ConfigError, match="the column alloc"):
        copy_of(_pool(fixture_f())).evidence("alloc.ref")
