"""The public surface, and every shared vector through it."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from kvaudit.backends import launch
from tests.helpers.torch_launches import (
    VERIFY_FIELDS,
    WRITE_FIELDS,
    state_of,
    tensor,
    vector_context,
)
from tests.helpers.vectors import vector_cases

LAUNCHERS = (
    "launch_canary_verify_kernel",
    "launch_canary_write_kernel",
    "launch_canary_plan_kernels",
)
ON_A_DEVICE = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


class Variant(NamedTuple):
    """A twin on tensors of a device."""

    suffix: str
    device: str

    def launcher(self, name: str) -> Any:
        return getattr(launch, f"{name}{self.suffix}")


VARIANTS = [
    pytest.param(Variant("_torch_reference", "cpu"), id="reference"),
    pytest.param(Variant("", "cpu"), id="cpu"),
    pytest.param(Variant("_torch_reference", "cuda"), id="reference-of-cuda", marks=ON_A_DEVICE),
    pytest.param(Variant("", "cuda"), id="cuda", marks=ON_A_DEVICE),
]


def assert_outputs(
    actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], *, variant: Variant, case: int
) -> None:
    """Ring rows in order; on a device in any order, and which of them an overflow keeps is free."""
    for name, values in expected.items():
        rows_are_free = name == "violation_ring" and variant == Variant("", "cuda")
        if rows_are_free and expected["violation_write_index"][0] > len(values):
            continue
        pair = (actual[name].tolist(), values.tolist())
        found, wanted = map(sorted, pair) if rows_are_free else pair
        assert found == wanted, f"case {case}: {name}"


@pytest.mark.parametrize("variant", VARIANTS)
def test_verify_reproduces_every_shared_vector(variant: Variant) -> None:
    for case, (inputs, expected) in enumerate(vector_cases("verify")):
        context = vector_context(inputs, device=variant.device)
        variant.launcher("launch_canary_verify_kernel")(
            context=context,
            plan=launch.VerifyPlan(
                **{name: tensor(inputs, name, device=variant.device) for name in VERIFY_FIELDS}
            ),
            check_verify_expected_token=bool(inputs["check_verify_expected_token"]),
        )
        assert_outputs(state_of(context), expected, variant=variant, case=case)
    assert case == 59


@pytest.mark.parametrize("variant", VARIANTS)
def test_write_reproduces_every_shared_vector(variant: Variant) -> None:
    for case, (inputs, expected) in enumerate(vector_cases("write")):
        context = vector_context(inputs, device=variant.device)
        variant.launcher("launch_canary_write_kernel")(
            context=context,
            plan=launch.WritePlan(
                **{name: tensor(inputs, name, device=variant.device) for name in WRITE_FIELDS}
            ),
            input_ids=tensor(inputs, "input_ids", device=variant.device),
            positions=tensor(inputs, "positions", device=variant.device),
            out_cache_loc=tensor(inputs, "out_cache_loc", device=variant.device),
            enable_write_input_assert=bool(inputs["enable_write_input_assert"]),
            expected_input_tokens=tensor(inputs, "expected_input_tokens", device=variant.device),
            expected_input_positions=tensor(
                inputs, "expected_input_positions", device=variant.device
            ),
        )
        assert_outputs(state_of(context), expected, variant=variant, case=case)
    assert case == 59


@pytest.mark.parametrize("variant", VARIANTS)
def test_plan_reproduces_every_shared_vector(variant: Variant) -> None:
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
            verify_capacity=int(inputs["verify_capacity"]), device=variant.device
        )
        verify_plan.enable.zero_()
        write_plan = launch.WritePlan.allocate(
            write_req_capacity=int(inputs["write_req_capacity"]), device=variant.device
        )
        variant.launcher("launch_canary_plan_kernels")(
            verify_plan_out=verify_plan,
            write_plan_out=write_plan,
            swa_window_size=int(inputs["swa_window_size"]),
            verify_capacity=int(inputs["verify_capacity"]),
            kv_token_id_vs_position_offset=int(inputs["kv_token_id_vs_position_offset"]),
            **{name: tensor(inputs, name, device=variant.device) for name in names},
        )
        actual = {name: getattr(verify_plan, name).cpu().numpy() for name in VERIFY_FIELDS}
        actual |= {name: getattr(write_plan, name).cpu().numpy() for name in WRITE_FIELDS}
        assert_outputs(actual, expected, variant=variant, case=case)
    assert case == 59


@pytest.mark.parametrize("name", LAUNCHERS)
def test_each_launch_has_a_reference_twin_of_one_signature(name: str) -> None:
    signature = inspect.signature(getattr(launch, name))
    assert signature == inspect.signature(getattr(launch, f"{name}_torch_reference"))
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_the_surface_is_what_is_exported() -> None:
    types = ("CanaryLaunchTag", "FailReason", "RealKvHashMode", "RealKvSource")
    twins = tuple(f"{name}_torch_reference" for name in LAUNCHERS)
    plans = ("VerifyOrWriteContext", "VerifyPlan", "WritePlan")
    assert set(launch.__all__) == {*types, *plans, *LAUNCHERS, *twins}
    assert all(hasattr(launch, name) for name in launch.__all__)
