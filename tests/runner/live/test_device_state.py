from __future__ import annotations

import torch

from kvaudit.constants import LaunchTag
from kvaudit.core.launch_tag import PoolKind
from kvaudit.runner.live.device_state import CanaryDeviceState, CounterSample


def test_a_sample_reads_every_counter_from_the_one_array_that_is_copied() -> None:
    state = CanaryDeviceState.allocate(ring_capacity=4, device="cpu")
    state.kernel_run_counter(LaunchTag.SWEEP_V_SWA).fill_(7)
    state.slot_run_counter(LaunchTag.HEAD_K_FULL).fill_(8)
    state.enabled_plan_counter(PoolKind.SWA).fill_(9)
    state.violation_write_index.fill_(10)
    sample = CounterSample.of(state.words.clone(), step=3)
    assert list(sample.kernel_runs) == [0] * 11 + [7]
    assert list(sample.slot_runs) == [8] + [0] * 11
    assert sample.enabled_plans == {PoolKind.FULL: 0, PoolKind.SWA: 9}
    assert (sample.violations, sample.step) == (10, 3)


def test_a_write_index_past_two_to_the_31_is_a_count_still() -> None:
    state = CanaryDeviceState.allocate(ring_capacity=4, device="cpu")
    state.violation_write_index.fill_(-1)
    assert CounterSample.of(state.words, step=0).violations == (1 << 32) - 1


def test_views_have_the_shapes_and_types_that_launches_take() -> None:
    state = CanaryDeviceState.allocate(ring_capacity=4, device="cpu")
    assert state.violation_ring.shape == (4, 8)
    assert state.ring_capacity == 4
    for view, dtype in (
        (state.violation_write_index, torch.int32),
        (state.enable_chain_position_assert, torch.int32),
        (state.kernel_run_counter(LaunchTag.TAIL_K_FULL), torch.int64),
    ):
        assert (view.shape, view.dtype, view.is_contiguous()) == ((1,), dtype, True)
