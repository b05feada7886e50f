"""The public surface, and every shared vector through it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from kvaudit.backends import launch
from tests.helpers.torch_launches import (
    VERIFY_FIELDS,
    WRITE_FIELDS,
    state_of,
    tensor,
    vector_cases,
    vector_context,
)

LAUNCHERS = (
    "launch_canary_verify_kernel",
    "launch_canary_write_kernel",
    "launch_canary_plan_kernels",
)
VARIANTS = [
    pytest.param("_torch_reference", id="reference"),
    pytest.param("", id="cpu"),
]


def launcher(name: str, variant: str) -> Any:
    return getattr(launch, f"{name}{variant}")


def assert_outputs(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], case: int):
    for name, values in expected.items():
        np.testing.assert_array_equal(actual[name], values, err_msg=f"case {case}: {name}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_verify_reproduces_every_shared_vector(variant: str) -> None:
    for case, (inputs, expected) in enumerate(vector_cases("verify")):
        context = vector_context(inputs)
        launcher("launch_canary_verify_kernel", variant)(
            context=context,
            plan=launch.VerifyPlan(**{name: tensor(inputs, name) for name in VERIFY_FIELDS}),
            check_verify_expected_token=bool(inputs["check_verify_expected_token"]),
        )
        assert_outputs(state_of(context), expected, case)
    assert case == 59


@pytest.mark.parametrize("variant", VARIANTS)
def test_write_reproduces_every_shared_vector(variant: str) -> None:
    for case, (inputs, expected) in enumerate(vector_cases("write")):
        context = vector_context(inputs)
        launcher("launch_canary_write_kernel", variant)(
            context=context,
            plan=launch.WritePlan(**{name: tensor(inputs, name) for name in WRITE_FIELDS}),
            input_ids=tensor(inputs, "input_ids"),
            positions=tensor(inputs, "positions"),
            out_cache_loc=tensor(inputs, "out_cache_loc"),
            enable_write_input_assert=bool(inputs["enable_write_input_assert"]),
            expected_input_tokens=tensor(inputs, "expected_input_tokens"),
            expected_input_positions=tensor(inputs, "expected_input_positions"),
        )
        assert_outputs(state_of(context), expected, case)
    assert case == 59


@pytest.mark.parametrize("variant", VARIANTS)
def test_plan_reproduces_every_shared_vector(variant: str) -> None:
    names = (
        "req_pool_indices",
        "prefix_lens",
        "extend_seq_lens",
        "req_to_token",
        "full_to_swa_index_mapping",
        "req_to_verify_expected_tokens",
        "req_to_verify_expected_tokens_valid_lens",
    )
    for case, (inputs, expected) in enumerate(vector_cases("plan")):
        verify_plan = launch.VerifyPlan.allocate(
            verify_capacity=int(inputs["verify_capacity"]), device="cpu"
        )
        verify_plan.enable.zero_()
        write_plan = launch.WritePlan.allocate(
            write_req_capacity=int(inputs["write_req_capacity"]), device="cpu"
        )
        launcher("launch_canary_plan_kernels", variant)(
            verify_plan_out=verify_plan,
            write_plan_out=write_plan,
            swa_window_size=int(inputs["swa_window_size"]),
            verify_capacity=int(inputs["verify_capacity"]),
            kv_token_id_vs_position_offset=int(inputs["kv_token_id_vs_position_offset"]),
            **{name: tensor(inputs, name) for name in names},
        )
        actual = {name: getattr(verify_plan, name).numpy() for name in VERIFY_FIELDS}
        actual |= {name: getattr(write_plan, name).numpy() for name in WRITE_FIELDS}
        assert_outputs(actual, expected, case)
    assert case == 59


@pytest.mark.parametrize("name", LAUNCHERS)
def test_each_launch_has_a_reference_twin_of_one_signature(name: str) -> None:
    signature = inspect.signature(launcher(name, ""))
    assert signature == inspect.signature(launcher(name, "_torch_reference"))
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_the_surface_is_what_is_exported() -> None:
    types = ("CanaryLaunchTag", "FailReason", "RealKvHashMode", "RealKvSource")
    twins = tuple(f"{name}_torch_reference" for name in LAUNCHERS)
    plans = ("VerifyOrWriteContext", "VerifyPlan", "WritePlan")
    assert set(launch.__all__) == {*types, *plans, *LAUNCHERS, *twins}
    assert all(hasattr(launch, name) for name in launch.__all__)
