"""One tag's launches, and what they cost a sweep."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvaudit.backends.launch import RealKvSource
from kvaudit.constants import LaunchTag, RealKvHashMode
from kvaudit.core.launch_tag import PoolKind
from kvaudit.runner.live.config import CanaryConfig
from kvaudit.runner.live.device_state import CanaryDeviceState
from kvaudit.runner.live.endpoint import CanaryEndpoint
from kvaudit.runner.live.launches import CanaryLaunches
from kvaudit.runner.live.step_inputs import PlannedStep, WrittenEntries

SOURCE = RealKvSource(
    tensor=torch.zeros((4, 256), dtype=torch.uint8),
    page_size=1,
    num_bytes_per_token=256,
    read_bytes=192,
)


def _endpoint(calls: list[tuple[str, dict[str, Any]]], **config: Any) -> CanaryEndpoint:
    return CanaryEndpoint.of(
        LaunchTag.TAIL_V_FULL,
        canary_buf=torch.zeros((4, 32), dtype=torch.uint8),
        sources=(SOURCE, SOURCE),
        state=CanaryDeviceState.allocate(ring_capacity=2, device="cpu"),
        config=CanaryConfig(**config),
        launches=CanaryLaunches(
            verify=lambda **given: calls.append(("verify", given)),
            write=lambda **given: calls.append(("write", given)),
            plan=lambda **given: calls.append(("plan", given)),
        ),
    )


def _entries(**changes: Any) -> WrittenEntries:
    tokens = torch.tensor([5])
    return WrittenEntries(
        plan="write plan", input_ids=tokens, positions=tokens, out_cache_loc=tokens, **changes
    )


def test_a_launch_verifies_before_it_writes_with_the_counters_of_its_tag() -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    endpoint = _endpoint(calls)
    endpoint.launch(
        PlannedStep(pool_kind=PoolKind.FULL, verify_plan="verify plan", write=_entries())
    )
    assert [(name, given["plan"]) for name, given in calls] == [
        ("verify", "verify plan"),
        ("write", "write plan"),
    ]
    context = calls[0][1]["context"]
    assert context is calls[1][1]["context"]
    assert context.kernel_kind is endpoint.tag is LaunchTag.TAIL_V_FULL
    assert context.kernel_run_counter.storage_offset() == LaunchTag.TAIL_V_FULL


def test_a_half_of_a_step_that_is_not_given_is_not_launched() -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    endpoint = _endpoint(calls)
    endpoint.launch(PlannedStep(pool_kind=PoolKind.FULL, verify_plan=None, write=_entries()))
    endpoint.launch(PlannedStep(pool_kind=PoolKind.FULL, verify_plan="plan", write=None))
    assert [name for name, _ in calls] == ["write", "verify"]


@pytest.mark.parametrize("judged", [True, False])
def test_flags_reach_the_launches(judged: bool) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    endpoint = _endpoint(calls, enable_verify_token_assert=judged)
    expected = {"expected_input_tokens": torch.tensor([5])} if judged else {}
    endpoint.launch(
        PlannedStep(pool_kind=PoolKind.FULL, verify_plan="plan", write=_entries(**expected))
    )
    assert calls[0][1]["check_verify_expected_token"] is judged
    assert calls[1][1]["enable_write_input_assert"] is judged


@pytest.mark.parametrize(
    ("mode", "bytes_per_entry"),
    [
        (RealKvHashMode.NONE, 64),
        (RealKvHashMode.PARTIAL, 64 + 2 * 16),
        (RealKvHashMode.ALL, 64 + 2 * 192),
    ],
)
def test_an_entry_costs_two_records_and_what_its_mode_reads(
    mode: RealKvHashMode, bytes_per_entry: int
) -> None:
    assert _endpoint([], real_kv_hash_mode=mode).bytes_per_entry == bytes_per_entry
