from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from kvaudit.backends import launch
from kvaudit.constants import OUT_OF_TABLE_SLOT
from tests.helpers.torch_launches import make_context, make_source, stamp_all

VERIFIERS = [
    pytest.param(launch.launch_canary_verify_kernel_torch_reference, id="reference"),
    pytest.param(launch.launch_canary_verify_kernel, id="cpu"),
]


@pytest.fixture(params=VERIFIERS)
def verify(request: pytest.FixtureRequest) -> Any:
    return request.param


def stamped(**changes: Any) -> tuple[Any, Any]:
    context = make_context(real_kv_sources=[make_source()], **changes)
    return context, stamp_all(context, launch.launch_canary_write_kernel_torch_reference)


def test_what_was_written_is_found_right(verify: Any) -> None:
    context, plan = stamped()
    context.slot_run_counter.zero_()
    verify(context=context, plan=plan, check_verify_expected_token=True)
    assert context.violation_write_index.tolist() == [0]
    assert context.slot_run_counter.tolist() == [7]


def test_a_flag_that_is_none_is_refused(verify: Any) -> None:
    context, plan = stamped()
    with pytest.raises(ValueError, match=r"^check_verify_expected_token: is None, not a bool"):
        verify(context=context, plan=plan, check_verify_expected_token=None)
    assert context.kernel_run_counter.tolist() == [1]


def test_a_token_is_judged_only_when_asked(verify: Any) -> None:
    context, plan = stamped()
    plan.verify_expected_tokens[3] += 1
    verify(context=context, plan=plan, check_verify_expected_token=False)
    assert context.violation_write_index.tolist() == [0]
    verify(context=context, plan=plan, check_verify_expected_token=True)
    assert context.violation_ring[0, [1, 4, 7]].tolist() == [
        4,
        plan.verify_expected_tokens[3].item(),
        launch.FailReason.VERIFY_TOKEN_MISMATCH,
    ]


@pytest.mark.parametrize(("num_valid", "active"), [(-5, 0), (0, 0), (3, 3), (99, 7)])
def test_num_valid_is_clamped(verify: Any, num_valid: int, active: int) -> None:
    context, plan = stamped()
    context.slot_run_counter.zero_()
    plan.verify_num_valid.fill_(num_valid)
    context.canary_buf.zero_()
    verify(context=context, plan=plan, check_verify_expected_token=True)
    assert context.slot_run_counter.tolist() == [active]
    assert context.violation_write_index.tolist() == [active]


def test_a_disabled_launch_counts_and_checks_nothing(verify: Any) -> None:
    context, plan = stamped()
    before = context.kernel_run_counter.item()
    context.canary_buf.zero_()
    plan.enable.zero_()
    verify(context=context, plan=plan, check_verify_expected_token=True)
    assert context.kernel_run_counter.tolist() == [before + 1]
    assert context.violation_write_index.tolist() == [0]


@pytest.mark.parametrize("slot", [-1, 8, OUT_OF_TABLE_SLOT, -(2**63)])
def test_a_slot_outside_the_pool_is_a_row_and_no_crash(verify: Any, slot: int) -> None:
    context, plan = stamped()
    plan.verify_slot_indices[0] = slot
    verify(context=context, plan=plan, check_verify_expected_token=False)
    row = context.violation_ring[0].tolist()
    assert row == [2, slot, 0, 0, -1, 0, 0, launch.FailReason.SLOT_OUT_OF_RANGE]
    assert context.violation_write_index.tolist() == [1]


def test_an_empty_plan_runs(verify: Any) -> None:
    context, _ = stamped()
    plan = launch.VerifyPlan.allocate(verify_capacity=0, device="cpu")
    before = context.kernel_run_counter.item()
    verify(context=context, plan=plan, check_verify_expected_token=True)
    assert context.kernel_run_counter.tolist() == [before + 1]


def test_tensors_that_require_grad_are_sources_too(verify: Any) -> None:
    values = torch.ones((4, 16), dtype=torch.float32)
    context, plan = stamped()
    context = dataclasses.replace(
        context, real_kv_sources=[make_source(tensor=values.requires_grad_())]
    )
    verify(context=context, plan=plan, check_verify_expected_token=False)
    assert context.violation_write_index.tolist() == [7]
