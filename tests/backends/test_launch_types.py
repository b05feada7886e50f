from __future__ import annotations

import dataclasses

import pytest
import torch

from kvaudit import constants
from kvaudit.backends import launch_types


def test_an_allocated_verify_plan_is_empty_and_enabled() -> None:
    plan = launch_types.VerifyPlan.allocate(verify_capacity=3, device="cpu")
    assert plan.verify_expected_tokens.tolist() == [-1, -1, -1]
    assert plan.enable.tolist() == [1]
    assert plan.verify_num_valid.tolist() == [0]
    for name in ("verify_slot_indices", "verify_expected_positions", "verify_prev_slot_indices"):
        assert getattr(plan, name).tolist() == [0, 0, 0]
        assert getattr(plan, name).dtype == torch.int64
    assert plan.enable.dtype == plan.verify_num_valid.dtype == torch.int32


def test_an_allocated_write_plan_is_zero_filled() -> None:
    plan = launch_types.WritePlan.allocate(write_req_capacity=2, device="cpu")
    assert plan.write_offsets.tolist() == [0, 0, 0]
    assert plan.write_seed_slot_indices.tolist() == [0, 0]
    assert plan.write_num_valid_reqs.tolist() == [0]
    assert plan.write_offsets.dtype == plan.write_seed_slot_indices.dtype == torch.int64
    assert plan.write_num_valid_reqs.dtype == torch.int32


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("RealKvSource", "tensor page_size num_bytes_per_token read_bytes"),
        (
            "VerifyPlan",
            (
                "verify_slot_indices verify_expected_tokens verify_expected_positions "
                "verify_prev_slot_indices verify_num_valid enable"
            ),
        ),
        ("WritePlan", "write_offsets write_seed_slot_indices write_num_valid_reqs"),
        (
            "VerifyOrWriteContext",
            (
                "canary_buf kernel_kind violation_ring violation_write_index slot_run_counter "
                "kernel_run_counter real_kv_sources real_kv_hash_mode enable_chain_position_assert"
            ),
        ),
    ],
)
def test_a_type_has_exactly_the_fields_of_the_design(name: str, fields: str) -> None:
    declared = dataclasses.fields(getattr(launch_types, name))
    assert [field.name for field in declared] == fields.split()
    assert all(field.kw_only for field in declared)
    assert getattr(launch_types, name).__dataclass_params__.frozen


def test_the_enums_are_those_of_the_constants() -> None:
    assert launch_types.CanaryLaunchTag is constants.LaunchTag
    assert launch_types.FailReason is constants.FailReason
    assert launch_types.RealKvHashMode is constants.RealKvHashMode
