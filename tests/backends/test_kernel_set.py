from __future__ import annotations

import dataclasses
import importlib.util
import inspect

import pytest

from kvaudit.backends.kernel_set import KernelSet, kernel_set

WITHOUT_CUDA = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)
COMPILED = ["numba_cpu", pytest.param("numba_cuda", marks=WITHOUT_CUDA)]
NAMES = [field.name for field in dataclasses.fields(KernelSet)]


@pytest.mark.parametrize("implementation", ["reference", *COMPILED])
def test_a_set_holds_the_launchers_of_its_implementation_by_their_own_names(
    implementation: str,
) -> None:
    launchers = [getattr(kernel_set(implementation), name) for name in NAMES]
    assert [launcher.__name__ for launcher in launchers] == NAMES
    modules = [launcher.__module__.split(".")[-1] for launcher in launchers]
    # An implementation of several modules has its name in front of each.
    assert [name for name in modules if not name.startswith(implementation)] == []


@pytest.mark.parametrize("implementation", COMPILED)
def test_all_sets_have_the_reference_s_signatures(implementation: str) -> None:
    for name in NAMES:
        wanted, found = (
            list(inspect.signature(getattr(kernel_set(each), name)).parameters)
            for each in ("reference", implementation)
        )
        assert found == wanted
