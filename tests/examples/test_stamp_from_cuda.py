"""What the C++ example stamps and dumps verifies clean, and dirty where a bit was flipped."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kvaudit.cli.exit_code import ExitCode
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from tests.helpers.auditing import assert_all_covered, audited, bad_columns, bad_slots
from tests.helpers.command_line import kvaudit, python
from tests.helpers.cpp_headers import INCLUDE, NVCC_WARNINGS, WARNINGS, has_device

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = EXAMPLES / "stamp_from_cuda.cu"

NO_GPU = (
    "nvcc is not installed"
    if shutil.which("nvcc") is None
    else ""
    if has_device()
    else "no CUDA device"
)
COMPILERS = [
    pytest.param(["g++", *WARNINGS, "-Wno-sign-conversion", "-x", "c++"], id="host"),
    pytest.param(
        ["nvcc", "-arch=native", *NVCC_WARNINGS],
        id="device",
        marks=[pytest.mark.gpu, pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)],
    ),
]


@pytest.fixture(scope="module", params=COMPILERS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("program") / "stamp_from_cuda"
    subprocess.run(
        [*request.param, "-std=c++17", f"-I{INCLUDE}", SOURCE, "-o", program], check=True
    )
    return program


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, encoding="utf-8", check=False
    )


def dumped(program: Path, folder: Path, *flip: object) -> str:
    """Run the engine and convert its dump into folder / "dumps"; what the engine said."""
    done = run(program, folder / "raw", *flip)
    assert done.returncode == 0, done.stderr
    converted = python(EXAMPLES / "snapshot_from_raw.py", folder / "raw", folder / "dumps")
    assert converted.returncode == 0, converted.stderr
    return done.stdout


def test_the_dump_of_the_example_verifies_clean(program, tmp_path):
    assert "4 requests, 660 entries checked or stamped, violations: 0\n" in dumped(
        program, tmp_path
    )
    report = audited(tmp_path / "dumps")
    assert report.verdict is Verdict.CLEAN
    assert_all_covered(report, Family.INDEX, Family.RECORDS, Family.BYTES)


@pytest.mark.parametrize(("column", "slot", "num_readers"), [("kv.v.1", 77, 4), ("kv.k.0", 80, 1)])
def test_a_flipped_bit_is_found_by_engine_and_audit_at_its_slot_and_column(
    program, tmp_path, column, slot, num_readers
):
    """Slot 77 lies in the shared prefix: each request that reads it is a row of the engine."""
    assert f", violations: {num_readers}\n" in dumped(program, tmp_path, column, slot)
    report = audited(tmp_path / "dumps")
    assert report.verdict is Verdict.VIOLATIONS
    assert bad_slots(report) == {slot}
    assert bad_columns(report) == {column}
    shown = kvaudit("verify", tmp_path / "dumps", "--backend", "cpu")
    assert shown.returncode == ExitCode.VIOLATIONS
    assert f"  slot {slot} (page {slot // 8} +{slot % 8})  request" in shown.stdout
    assert column in shown.stdout


def test_the_prefix_is_shared_and_its_pages_lie_in_no_order(program, tmp_path):
    dumped(program, tmp_path)
    requests = json.loads((tmp_path / "raw" / "manifest.json").read_text())["requests"]
    assert {tuple(request["slots"][:16]) for request in requests} == {
        (*range(72, 80), *range(16, 24))
    }
    assert len({slot for request in requests for slot in request["slots"][16:]}) == sum(
        len(request["slots"]) - 16 for request in requests
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "usage: stamp_from_cuda FOLDER [COLUMN SLOT]"),
        (["raw", "kv.v.1"], 2, "usage"),
        (["raw", "kv.v.3", "77"], 1, "no column kv.v.3 holds a token at slot 77"),
        (["raw", "kv.v.1", "0"], 1, "no column kv.v.1 holds a token at slot 0"),
    ],
)
def test_the_example_refuses_what_it_cannot_flip(program, arguments, code, message):
    done = run(program, *arguments)
    assert done.returncode == code
    assert message in done.stderr
