"""The public surface, and every shared vector through it."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import pytest
import torch

from kvaudit.backends import launch
from tests.helpers.torch_launches import LAUNCHES, assert_outputs, vector_launch
from tests.helpers.vectors import vector_cases

ON_A_DEVICE = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


class Variant(NamedTuple):
    """A form of each launch, on tensors of a device."""

    form: str
    device: str

    def run(self, name: str, arguments: dict[str, Any]) -> None:
        done = getattr(launch, self.form.format(name))(**arguments)
        if done is not None:
            done()


ONE_SHOT, TWIN, PREPARED = "launch_{}", "launch_{}_torch_reference", "prepare_{}"
VARIANTS = [
    pytest.param(Variant(TWIN, "cpu"), id="reference"),
    pytest.param(Variant(ONE_SHOT, "cpu"), id="cpu"),
    pytest.param(Variant(PREPARED, "cpu"), id="prepared"),
    pytest.param(Variant(TWIN, "cuda"), id="reference-of-cuda", marks=ON_A_DEVICE),
    pytest.param(Variant(ONE_SHOT, "cuda"), id="cuda", marks=ON_A_DEVICE),
    pytest.param(Variant(PREPARED, "cuda"), id="prepared-cuda", marks=ON_A_DEVICE),
]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", LAUNCHES)
def test_a_launch_reproduces_every_shared_vector(family: str, variant: Variant) -> None:
    rows_are_free = variant.device == "cuda" and variant.form != TWIN
    for case, (inputs, expected) in enumerate(vector_cases(family)):
        arguments, outputs = vector_launch(family, inputs, device=variant.device)
        variant.run(LAUNCHES[family], arguments)
        assert_outputs(outputs(), expected, rows_are_free=rows_are_free, case=case)
    assert case == 59


@pytest.mark.parametrize("name", LAUNCHES.values())
def test_each_launch_has_a_reference_twin_and_a_preparation_of_one_signature(name: str) -> None:
    signature = inspect.signature(getattr(launch, ONE_SHOT.format(name)))
    assert signature == inspect.signature(getattr(launch, TWIN.format(name)))
    prepare = inspect.signature(getattr(launch, PREPARED.format(name)))
    assert prepare.parameters == signature.parameters
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_the_surface_is_what_is_exported() -> None:
    types = ("CanaryLaunchTag", "FailReason", "RealKvHashMode", "RealKvSource")
    plans = ("PreparedLaunch", "VerifyOrWriteContext", "VerifyPlan", "WritePlan")
    forms = [form.format(name) for name in LAUNCHES.values() for form in (ONE_SHOT, TWIN, PREPARED)]
    assert set(launch.__all__) == {*types, *plans, *forms}
    assert all(hasattr(launch, name) for name in launch.__all__)
