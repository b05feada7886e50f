"""A pool's buffers and plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.launch_tag import KvHalf, LaunchPhase, PoolKind
from kvaudit.errors import ConfigError
from kvaudit.runner.live.config import CanaryConfig
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.pool import CanaryPool, PoolGeometry
from tests.helpers.live_engine import LiveEngine

GEOMETRY = PoolGeometry(num_slots=8, page_size=2, verify_capacity=8, write_req_capacity=2)
BOTH = (KvHalf.K, KvHalf.V)


def _pool(halves: tuple[KvHalf, ...], **config: Any) -> CanaryPool:
    return CanaryPool.allocate(
        GEOMETRY,
        sources=dict.fromkeys(halves, ()),
        state=CanaryDeviceState.allocate(ring_capacity=2, device="cpu"),
        config=CanaryConfig(**config),
    )


def test_head_tail_and_sweep_have_endpoints_by_tag_number_and_share_two_buffers_a_half() -> None:
    pool = _pool(BOTH)
    assert [endpoint.tag for endpoint in pool.endpoints] == list(LaunchTag)[:6]
    assert list(pool.buffers) == ["k.head", "k.tail", "v.head", "v.tail"]
    (tail,) = {
        endpoint.context.canary_buf.data_ptr()
        for endpoint in pool.endpoints
        if endpoint.tag in {LaunchTag.TAIL_V_FULL, LaunchTag.SWEEP_V_FULL}
    }
    assert tail == pool.buffers["v.tail"].data_ptr()
    head = [endpoint.tag for endpoint in pool.endpoints_of(LaunchPhase.HEAD)]
    assert head == [LaunchTag.HEAD_K_FULL, LaunchTag.HEAD_V_FULL]


def test_only_tail_and_sweep_hash_the_sources() -> None:
    engine = LiveEngine(CanaryConfig(real_kv_hash_mode=RealKvHashMode.ALL))
    num_sources = [len(e.context.real_kv_sources) for e in engine.pool.endpoints]
    assert num_sources == [0, 1, 1]


def test_bytes_to_hash_and_a_half_to_stamp_must_be_there() -> None:
    with pytest.raises(ConfigError, match="no sources"):
        _pool(BOTH, real_kv_hash_mode=RealKvHashMode.ALL)
    with pytest.raises(ConfigError, match="without a half"):
        _pool(())


@pytest.mark.parametrize(
    "change",
    [
        {"num_slots": -1},
        {"page_size": 0},
        {"verify_capacity": 0},
        {"write_req_capacity": -3},
        {"swa_window_size": -1, "pool_kind": PoolKind.SWA},
        {"swa_window_size": 4},
    ],
)
def test_a_geometry_that_no_pool_has_is_refused_by_the_name_of_its_field(
    change: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(change))}: is "):
        replace(GEOMETRY, **change)


def test_a_batch_is_planned_into_the_pools_buffers() -> None:
    engine = LiveEngine(CanaryConfig(), num_requests=2)
    engine.batch()
    planned = engine.pool.planned(engine.batch(), config=CanaryConfig())
    assert planned.verify_plan is engine.pool.verify_plan
    assert planned.verify_plan.verify_num_valid.tolist() == [6]
    slots = [engine.slot(request, position) for request in (1, 2) for position in range(3)]
    assert planned.verify_plan.verify_slot_indices[:6].tolist() == slots
    assert planned.write.plan.write_offsets[:3].tolist() == [0, 1, 2]
    assert planned.write.out_cache_loc.tolist() == [engine.slot(1, 3), engine.slot(2, 3)]


def test_a_window_pool_plans_its_window_with_its_own_slots() -> None:
    config = CanaryConfig()
    engine = LiveEngine(config, num_requests=1, window=2)
    engine.batch()
    shifted = torch.arange(engine.num_slots).roll(1)
    batch = engine.batch(
        full_to_swa_index_mapping=shifted, swa_out_cache_loc=torch.tensor([engine.slot(1, 2)])
    )
    planned = engine.pools[PoolKind.SWA].planned(batch, config=config)
    assert planned.verify_plan.verify_num_valid.tolist() == [2]
    window = [engine.slot(1, position) - 1 for position in (1, 2)]
    assert planned.verify_plan.verify_slot_indices[:2].tolist() == window
    assert planned.write.out_cache_loc.tolist() == [engine.slot(1, 2)]


@pytest.mark.parametrize(
    ("config", "window", "missing"),
    [
        ({"enable_verify_token_assert": True}, None, "req_to_verify_expected_tokens"),
        ({"enable_write_input_assert": True}, None, "expected_input_tokens"),
        ({}, 2, "swa_out_cache_loc"),
        ({}, 2, "full_to_swa_index_mapping"),
    ],
)
def test_what_would_go_unchecked_without_a_tensor_is_refused_by_its_name(
    config: dict[str, Any], window: int | None, missing: str
) -> None:
    settings = CanaryConfig(**config)
    engine = LiveEngine(settings, window=window)
    pool = engine.pools[PoolKind.FULL if window is None else PoolKind.SWA]
    with pytest.raises(ValueError, match=f"^{missing}: is None"):
        pool.planned(engine.batch(**{missing: None}), config=settings)


def test_tokens_and_the_expected_pair_reach_the_plan_where_they_are_judged() -> None:
    config = CanaryConfig(enable_verify_token_assert=True, enable_write_input_assert=True)
    engine = LiveEngine(config, num_requests=1)
    engine.batch()
    expected = torch.tensor([7])
    batch = engine.batch(
        req_to_verify_expected_tokens=engine.tokens,
        req_to_verify_expected_tokens_valid_lens=torch.tensor([3]),
        expected_input_tokens=expected,
        expected_input_positions=expected,
    )
    planned = engine.pool.planned(batch, config=config)
    tokens = engine.tokens[1, :3].tolist()
    assert planned.verify_plan.verify_expected_tokens[:3].tolist() == tokens
    assert planned.write.expected_input_tokens is expected
    quiet = engine.pool.planned(batch, config=CanaryConfig())
    assert quiet.write.expected_input_tokens is None
    assert quiet.verify_plan.verify_expected_tokens[:3].tolist() == [-1] * 3
