from __future__ import annotations

import pytest

from kvaudit.core.comparison import LegKind
from kvaudit.core.dataset import Dataset
from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.errors import ConfigError, SnapshotInconsistent
from kvaudit.runner.compare.legs import distinct_keys, leg_kind, leg_name, paired_pools
from tests.helpers.comparing import dumped, side_of


def _dump(**key: object) -> Snapshot:
    return dumped(key=PoolKey(**key)).snapshot()


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ({}, {}, LegKind.TRANSFER),
        ({"tier": "device"}, {"tier": "host"}, LegKind.TRANSFER),
        ({"instance": "p"}, {"instance": "d", "rank": 1}, LegKind.TRANSFER),
        ({"rank": 0}, {"rank": 1}, LegKind.RANKS),
        ({"rank": 0, "step": 3}, {"rank": 1, "step": 4}, LegKind.RANKS),
        ({"rank": 0, "tier": "device"}, {"rank": 1, "tier": "host"}, LegKind.TRANSFER),
        ({"step": 3}, {"step": 4}, LegKind.STEPS),
        ({"step": 3}, {"step": 3}, LegKind.TRANSFER),
        ({"step": 3}, {}, LegKind.TRANSFER),
        ({"step": 3, "tier": "device"}, {"step": 4, "tier": "host"}, LegKind.TRANSFER),
    ],
)
def test_the_pairing_keys_tell_what_lies_between_two_dumps(
    left: dict[str, object], right: dict[str, object], kind: LegKind
) -> None:
    assert leg_kind(_dump(**left), _dump(**right)) is kind


def test_the_name_of_a_leg_has_the_parts_of_the_keys_that_differ() -> None:
    one = side_of(_dump(instance="prefill-0", rank=2, step=7))
    assert leg_name(one, side_of(_dump(instance="decode-3", rank=2, step=8), "B")) == (
        "A->B (prefill-0 step 7 -> decode-3 step 8)"
    )
    assert leg_name(one, side_of(_dump(), "B")) == "A->B"


def test_dumps_of_one_key_are_told_apart_by_their_letters() -> None:
    plain, named = PoolKey(), PoolKey(instance="decode-0")
    assert distinct_keys([plain, named], letters="BC") == [plain, named]
    assert [key.instance for key in distinct_keys([plain, plain], letters="BC")] == ["B", "C"]
    [one, _] = distinct_keys([named, named], letters="BC")
    assert one.instance == "decode-0 B"


def _set(*keys: PoolKey) -> Dataset:
    return Dataset(pools=[dumped(key=key).dataset().pools[0] for key in keys])


def test_one_pool_each_is_a_pair_whatever_the_ranks() -> None:
    paired = paired_pools([_set(PoolKey(rank=0)), _set(PoolKey(rank=3))])
    assert [len(pools) for pools in paired.pools] == [2]


def test_several_pools_are_paired_by_what_is_the_same_everywhere() -> None:
    here = _set(*(PoolKey(rank=rank, tier="device", step=1) for rank in range(3)))
    there = _set(*(PoolKey(rank=rank, tier="host", step=2) for rank in (2, 1, 0)))
    paired = paired_pools([here, there])
    assert [[p.snapshot.key.rank for p in pools] for pools in paired.pools] == [
        [0, 0],
        [1, 1],
        [2, 2],
    ]
    assert not paired.alone


def test_sets_without_a_common_pool_and_with_two_dumps_of_one_are_refused() -> None:
    with pytest.raises(SnapshotInconsistent, match="no pool is in all"):
        paired_pools([_set(PoolKey(rank=0), PoolKey(rank=1)), _set(PoolKey(rank=2))])
    with pytest.raises(ConfigError, match="A has two dumps"):
        paired_pools([_set(PoolKey(step=0), PoolKey(step=1)), _set(PoolKey())])
