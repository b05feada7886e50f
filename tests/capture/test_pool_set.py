"""All pools of a recorder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from kvaudit.capture.dump_identity import DumpIdentity
from kvaudit.capture.pool_set import PoolSet
from kvaudit.capture.recorded_pool import RecordedPool
from kvaudit.errors import ConfigError
from tests.helpers.pool_rows import row

KV = [(torch.zeros(16, 4), torch.ones(16, 4))]
NONE = np.empty(0, dtype=np.int64)


def _pool(name: str) -> RecordedPool:
    return RecordedPool(kv=KV, layout="slot dim", page_size=4, reserved_slots="0-3", name=name)


def _pools(*names: str) -> PoolSet:
    identity = DumpIdentity(instance="decode-0")
    return PoolSet([_pool(name) for name in names], content="bytes", identity=identity)


def _run(pools: PoolSet, rows: dict[str, list], *, step: int) -> None:
    pools.before_forward(rows, last_step=step - 1)
    pools.after_forward(step)


def _names(pools: PoolSet, *, request_ids: Sequence[str] | None = None) -> list[str]:
    dumps = pools.dump(9, request_ids=request_ids, content="bytes")
    return [dumped.snapshot.key.pool for dumped in dumps]


def test_pools_are_told_apart_by_their_names_and_by_those_of_their_files() -> None:
    assert list(_pools("one", "other")) == ["one", "other"]
    for names in (("one", "one"), ("one", "ONE")):
        with pytest.raises(ConfigError, match=r"^pools: named "):
            _pools(*names)


def test_each_pool_is_told_what_is_its_own() -> None:
    pools = _pools("one", "other")
    _run(pools, {"one": [row("a", range(2), [4, 5])], "other": [row("b", range(1), [9])]}, step=1)
    assert (pools.num_stamped, pools.live_requests) == (3, {"a", "b"})
    pools.update("a", known_tokens=None, slots={"one": np.array([4]), "other": NONE}, kv_len=1)
    held = pools.dump_stamped(1, content="bytes")
    assert held["one"].sequences.slots_of(0).tolist() == [4]
    pools.forget("a")
    assert pools.live_requests == {"b"}


def test_a_write_through_one_pool_saves_what_finished_in_another_on_the_same_memory() -> None:
    pools = _pools("one", "other")
    _run(pools, {"one": [row("a", range(2), [4, 5])], "other": []}, step=1)
    pools.forget("a")
    _run(pools, {"one": [], "other": [row("b", range(1), [5])]}, step=2)
    assert _names(pools, request_ids=["b"]) == ["one", "other"]
    assert _names(pools) == ["one", "one.finished-000001", "other"]
    assert _names(pools) == ["one", "other"]


def test_as_many_slots_are_copied_as_there_are_places_for() -> None:
    pools = _pools("one")
    with pytest.raises(ConfigError, match=r"^copy_slots: 2 sources, 1 targets"):
        pools.copy_slots({"one": np.array([4, 5])}, {"one": np.array([6])}, step=1)
    _run(pools, {"one": [row("a", range(1), [4])]}, step=1)
    pools.copy_slots({"one": np.array([4])}, {"one": np.array([6])}, step=1)
    assert pools.num_stamped == 2


def test_dumps_are_written_pair_by_pair(tmp_path: Path) -> None:
    pools = _pools("one")
    _run(pools, {"one": [row("a", range(1), [4])]}, step=1)
    files = pools.write(tmp_path, pools.dump(1, request_ids=None, content="digests"), "slot")
    assert [path.name.split(".", 1)[1] for path in files] == [
        "one.snapshot.arrow",
        "one.sequences.arrow",
    ]
