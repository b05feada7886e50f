"""One pool with a canary beside it: its buffers and what it sweeps."""

from __future__ import annotations

import pytest
import torch

from kvaudit.capture import RecordedPool
from kvaudit.capture.live_pool import LivePool
from kvaudit.constants import RECORD_BYTES, LaunchTag, RealKvHashMode
from kvaudit.core.launch_tag import PoolKind
from kvaudit.errors import ConfigError
from kvaudit.runner.live import CachedPrefix, CanaryConfig, CanaryMode
from tests.helpers.toy_engine import ToyEngine
from tests.helpers.watched_engine import BesideEngine

LAYOUT = "page slot head dim"


def _live(kv: list, *, layout: str = LAYOUT, **config: object) -> LivePool:
    return LivePool(
        RecordedPool(kv=kv, layout=layout, page_size=4, reserved_slots="0-3"),
        config=CanaryConfig(mode=CanaryMode.LOG, **config),
        max_requests=2,
        prefixes=dict,
        write_dump=lambda _: None,
        triggered=lambda: False,
    )


def test_there_are_records_of_each_half_for_every_slot() -> None:
    pages = torch.zeros(6, 4, 2, 8)
    pair = _live([(pages, pages.clone())])
    assert sorted(pair.records) == ["k.head", "k.tail", "v.head", "v.tail"]
    assert {tuple(records.shape) for records in pair.records.values()} == {(24, RECORD_BYTES)}
    assert sorted(_live([pages]).records) == ["k.head", "k.tail"]


def test_a_layout_is_refused_only_where_its_bytes_are_hashed() -> None:
    kv = [torch.zeros(2, 6, 2, 4, 8)]
    layout = "kv page head slot dim"
    assert _live(kv, layout=layout).records
    with pytest.raises(ConfigError, match=r"^kv\.k\.0: "):
        _live(kv, layout=layout, real_kv_hash_mode=RealKvHashMode.ALL)


def test_what_the_engine_caches_is_swept_when_no_request_runs_on_it() -> None:
    canary = BesideEngine(
        CanaryConfig(mode=CanaryMode.LOG, sweep_interval=1, violation_check_every_n_steps=1)
    )
    engine = ToyEngine(canary)
    cached: dict[str, CachedPrefix] = {}
    canary.attach([engine.pool()], cached_prefixes=lambda _: cached)
    engine.join("a", [1, 2, 3, 4, 5, 6, 7, 8, 9])
    engine.join("b", [21, 22, 23])
    engine.step()
    slots = engine.slots("a", 8)
    engine.leave("a", kept_pages=2)
    cached["a"] = CachedPrefix(slots=torch.tensor(slots))
    engine.step()
    assert canary.state.violation_write_index == 0
    assert canary.state.slot_run_counters[LaunchTag.SWEEP_K_FULL] == len(slots)
    canary.overwrite(slots[5])
    engine.step()
    assert {int(row[0]) for row in canary.state.ring} == {LaunchTag.SWEEP_K_FULL}


def test_a_window_pool_has_the_tags_of_its_kind() -> None:
    pages = torch.zeros(6, 4, 2, 8)
    live = LivePool(
        RecordedPool(
            kv=[pages], layout=LAYOUT, page_size=4, pool_kind=PoolKind.SWA, name="SWA", window=8
        ),
        config=CanaryConfig(mode=CanaryMode.LOG),
        max_requests=2,
        prefixes=dict,
        write_dump=lambda _: None,
        triggered=lambda: False,
    )
    assert live.read_state().active_tags == (LaunchTag.HEAD_K_SWA, LaunchTag.TAIL_K_SWA)
