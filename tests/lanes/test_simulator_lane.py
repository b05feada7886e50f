"""The simulator lane: all kernel tests again, with the device kernels in numba's simulator.

So are the launches that a benchmark compares them with.

In a process of its own, since NUMBA_ENABLE_CUDASIM counts only before the first import. It finds
wrong bounds, grid-stride and ring logic; types, races and speed are for other lanes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.helpers.vectors import vector_cases

ROOT = Path(__file__).parents[2]
# The simulator computes on numpy scalars, which warn where 64 bits wrap: in the mixer always, in
# sums where a test puts a position or a counter at its end. Nothing else is allowed.
FILTERS = [
    "error",
    "ignore:overflow encountered in scalar multiply:RuntimeWarning",
    "ignore:overflow encountered in scalar add:RuntimeWarning",
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcome of each kernel test in the simulator, by name."""
    report = tmp_path_factory.mktemp("simulator") / "report.xml"
    tests = ("tests/kernels", "tests/bench/kernels")
    command = [sys.executable, "-m", "pytest", *tests, "-q", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, *(f"-W{each}" for each in FILTERS)],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = ET.parse(report).iter("testcase")  # noqa: S314 - pytest's own report
    return {f"{case.get('classname')}::{case.get('name')}": _outcome(case) for case in cases}


def _outcome(case: ET.Element) -> str:
    unusual = [child.tag for child in case if child.tag in {"failure", "error", "skipped"}]
    return unusual[0] if unusual else "passed"


def _named(outcomes: dict[str, str], pattern: str) -> dict[str, str]:
    return {name: outcome for name, outcome in outcomes.items() if re.search(pattern, name)}


def test_every_kernel_test_passes_and_none_is_skipped(outcomes):
    assert Counter(outcomes.values()).keys() == {"passed"}


def test_no_simulated_run_is_reported_as_cuda(outcomes):
    assert _named(outcomes, r"\bcuda[-\]]") == {}
    assert _named(outcomes, r"\bsimulator[-\]]")


@pytest.mark.parametrize("op", ["verify", "write", "plan"])
@pytest.mark.parametrize("implementation", ["reference", "simulator"])
def test_every_vector_ran(outcomes, op, implementation):
    ran = _named(outcomes, rf"test_{op}::\w*shared_vector.*\b{implementation}\b")
    assert len(ran) >= len(vector_cases(op)) > 0


@pytest.mark.parametrize("op", ["fold", "verify", "write", "plan"])
def test_every_engine_shaped_launch_ran_in_the_simulator(outcomes, op):
    assert _named(outcomes, rf"test_engine_launch::test_engine_{op}_")


@pytest.mark.parametrize("op", ["hash", "fold", "verify", "write", "plan"])
def test_every_operation_ran_in_the_simulator(outcomes, op):
    assert _named(outcomes, rf"test_{op}::.*\bsimulator\b")
