"""One signature for all implementations, which is the contract's, and lanes that always run."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.kernels.implementations import CPU, IMPLEMENTATIONS, IN_SIMULATOR, OPS, REFERENCE

LAUNCHERS = [(op, f"launch_{op}") for op in OPS] + [
    ("fold", "launch_fold_pieces"),
    ("fold", "launch_combine"),
    ("fold", "launch_fold_source"),
    ("fold", "launch_count_written"),
    ("verify", "launch_verify_source"),
]
MODULES: list[Any] = ["reference"]
if not IN_SIMULATOR:
    MODULES.append("numba_cpu")
_WITHOUT_CUDA = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)
MODULES.append(pytest.param("numba_cuda", marks=_WITHOUT_CUDA))


def parameters(op, launcher, module):
    launch = getattr(importlib.import_module(f"kvaudit.kernels.{op}.{module}"), launcher)
    return inspect.signature(launch).parameters.values()


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("op", "launcher"), LAUNCHERS)
def test_launcher_takes_the_contract_s_arguments_in_its_order(op, launcher, module):
    contract = importlib.import_module(f"kvaudit.kernels.{op}").__doc__
    _, _, call = contract.partition(f"`{launcher}(")
    named = [name.strip() for name in call.partition(")`")[0].split(",")]
    assert [parameter.name for parameter in parameters(op, launcher, module)] == named


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("op", "launcher"), LAUNCHERS)
def test_launcher_has_no_defaults(op, launcher, module):
    for parameter in parameters(op, launcher, module):
        assert parameter.default is inspect.Parameter.empty
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


def test_the_reference_is_never_skipped():
    runs = {parameter.values[0].name: parameter.marks for parameter in IMPLEMENTATIONS}
    assert runs[REFERENCE.name] == ()


def test_the_cpu_is_never_skipped_outside_the_simulator():
    names = [parameter.values[0].name for parameter in IMPLEMENTATIONS if not parameter.marks]
    assert (CPU.name in names) != IN_SIMULATOR


def test_the_kernel_tests_of_reference_and_cpu_ran_and_passed():
    """In a process of its own, so that nothing of this one can leave them out."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "tests/kernels/test_hash.py",
            "-v",
            "-p",
            "no:cacheprovider",
        ],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    for name in (REFERENCE.name, CPU.name):
        lines = [line for line in done.stdout.splitlines() if f"[{name}]" in line]
        assert lines
        assert all("PASSED" in line for line in lines)
