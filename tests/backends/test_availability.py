from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from kvaudit.backends import availability
from kvaudit.backends.cpu import CpuBackend
from kvaudit.backends.reference import ReferenceBackend
from kvaudit.errors import BackendNotInstalled, ConfigError, DeviceUnsupported, NoDevice

SMALL = {"kv_bytes": 1_500_000, "num_entries": 24_576}
HUGE = {"kv_bytes": 4 * 10**13, "num_entries": 10**9}


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    """CUDA as a stand-in that is usable, or fails with a given error, at first sight or later."""

    def install(error: Exception | None = None, *, at_first_sight: bool = True) -> list[str]:
        asked: list[str] = []

        def require() -> None:
            asked.append("driver")
            if error is not None and at_first_sight:
                raise error

        def find_device() -> str:
            asked.append("device")
            if error is not None:
                raise error
            return "NVIDIA H200 (9.0)"

        stand_in = replace(
            availability._CANDIDATES["cuda"],
            require=require,
            find_device=find_device,
            create=_FakeCuda,
            kv_bytes_per_second=1e12,
            entries_per_second=1e12,
        )
        monkeypatch.setitem(availability._CANDIDATES, "cuda", stand_in)
        return asked

    return install


class _FakeCuda(ReferenceBackend):
    name = "cuda"

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device


@pytest.mark.parametrize(
    ("name", "expected"), [("cpu", CpuBackend), ("reference", ReferenceBackend)]
)
def test_a_named_backend_is_the_one_that_runs(name: str, expected: type) -> None:
    backend, choice = availability.choose(name, **SMALL)
    assert type(backend) is expected
    assert (choice.name, choice.device) == (name, backend.device)
    assert "by name" in choice.reason


@pytest.mark.parametrize(
    "error", [BackendNotInstalled("a"), NoDevice("b"), DeviceUnsupported("c")], ids=repr
)
def test_a_demand_that_cannot_be_met_is_an_error_and_nothing_else_runs(
    cuda: Any, error: Exception
) -> None:
    cuda(error)
    with pytest.raises(type(error)):
        availability.choose("cuda", **SMALL)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as failure:
        availability.choose("gpu", **SMALL)
    assert failure.value.hint == "choose one of auto, cuda, cpu, reference"


def test_auto_says_the_size_of_the_job_and_why_cuda_did_not_run(cuda: Any) -> None:
    cuda(NoDevice("there is no driver"))
    backend, choice = availability.choose("auto", **SMALL)
    assert isinstance(backend, CpuBackend)
    assert choice.name == "cpu"
    assert choice.reason == (
        "1.5 MB of KV and 24,576 entries take under 0.1 s; cuda did not run: there is no driver"
    )


@pytest.mark.parametrize(
    ("job", "faster", "slower"), [(SMALL, "cpu", "cuda"), (HUGE, "cuda", "cpu")]
)
def test_auto_takes_what_finishes_first_and_says_by_how_much(
    cuda: Any, job: dict[str, int], faster: str, slower: str
) -> None:
    cuda()
    backend, choice = availability.choose("auto", **job)
    assert backend.name == choice.name == faster
    assert f"{slower} would take about" in choice.reason
    assert "reference" not in choice.reason


def test_auto_asks_no_device_for_a_job_that_is_done_before_one_has_started(cuda: Any) -> None:
    asked = cuda()
    _, choice = availability.choose("auto", **SMALL)
    assert asked == ["driver"]
    assert choice.reason.endswith("; cuda would take about 1.1 s")
    asked.clear()
    assert availability.choose("auto", **HUGE)[1].device == "NVIDIA H200 (9.0)"
    assert asked == ["driver", "device"]


def test_auto_goes_on_to_the_next_where_the_fastest_turns_out_not_to_run(cuda: Any) -> None:
    cuda(DeviceUnsupported("it is too old"), at_first_sight=False)
    backend, choice = availability.choose("auto", **HUGE)
    assert backend.name == choice.name == "cpu"
    assert choice.reason.endswith("; cuda did not run: it is too old")


def test_auto_falls_back_to_the_reference_and_says_why(
    cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(NoDevice("there is no driver"))
    monkeypatch.setitem(sys.modules, "kvaudit.backends.cpu", None)
    backend, choice = availability.choose("auto", **SMALL)
    assert backend.name == choice.name == "reference"
    assert "cpu did not run: numba cannot be imported" in choice.reason
    with pytest.raises(BackendNotInstalled):
        availability.choose("cpu", **SMALL)


def test_the_survey_lists_every_backend_with_its_reason(cuda: Any) -> None:
    cuda(DeviceUnsupported("too old"))
    statuses = availability.survey()
    assert [(status.name, status.usable) for status in statuses] == [
        ("cuda", False),
        ("cpu", True),
        ("reference", True),
    ]
    assert [status.reason for status in statuses] == ["too old", "", ""]
    assert [bool(status.device) for status in statuses] == [False, True, True]


def run_python(script: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_simulator_is_never_taken_for_a_device() -> None:
    script = """
from kvaudit.backends.availability import choose, survey
from kvaudit.errors import NoDevice
print(survey()[0].usable, choose("auto", kv_bytes=10**15, num_entries=0)[1].name)
try:
    choose("cuda", kv_bytes=0, num_entries=0)
except NoDevice as error:
    print(error)
"""
    usable, name, *message = run_python(script, NUMBA_ENABLE_CUDASIM="1").split()
    assert (usable, name) == ("False", "cpu")
    assert "simulator" in message


def test_choosing_imports_no_torch_and_without_a_driver_no_cuda() -> None:
    script = """
import ctypes, sys
class Driverless(ctypes.CDLL):
    def __init__(self, name, *arguments, **options):
        if name and "cuda" in str(name):
            raise OSError(name)
        super().__init__(name, *arguments, **options)
ctypes.CDLL = Driverless
from kvaudit.backends.availability import choose
choose("auto", kv_bytes=1, num_entries=1)
print([name for name in ("torch", "pyarrow", "numba.cuda", "cuda") if name in sys.modules])
"""
    assert run_python(script).strip() == "[]"
