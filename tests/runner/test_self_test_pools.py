from __future__ import annotations

from kvaudit.backends.availability import choose
from kvaudit.runner.self_test_pools import self_test_pools
from tests.helpers.injecting import named


def test_the_pools_are_clean_and_each_has_what_its_name_says() -> None:
    pools = self_test_pools(choose("cpu", kv_bytes=0, num_entries=0)[0])
    assert {name: named(pool) for name, pool in pools.items()} == {name: [] for name in pools}
    assert "kv.side.scales" in pools["stamped"].snapshot.stamped
    assert "kv.side.scales" not in pools["layers"].snapshot.kv
    assert pools["planned"].plans
    assert not pools["planned"].sequences
    assert {"swa_slot", "alloc.ref", "alloc.state"} == set(pools["allocated"].snapshot.evidence)
    assert pools["stamped"].snapshot.canary["k.tail"].read().any()


def test_both_backends_stamp_the_same() -> None:
    one, other = (
        self_test_pools(choose(name, kv_bytes=0, num_entries=0)[0])["stamped"].snapshot
        for name in ("cpu", "reference")
    )
    for name, column in one.stamped.items():
        assert (column.read() == other.stamped[name].read()).all()
    assert (one.canary["k.tail"].read() == other.canary["k.tail"].read()).all()
