from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.diagnosis import registry
from kvaudit.render.progress import COMPILING
from kvaudit.runner.inject import FAULT_CLASSES
from kvaudit.runner.self_test_comparisons import DIVERGENCE_CLASSES
from tests.helpers.command_line import kvaudit, python


def test_doctor_says_what_runs_and_checks_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--backend", "reference", "--format", "json"]) == ExitCode.CLEAN
    facts = json.loads(capsys.readouterr().out)
    assert {"kvaudit", "python", "numpy", "numba", "pyarrow", "torch"} <= set(facts)
    assert set(facts["backends"]) == {"cuda", "cpu", "reference"}
    assert not facts["backends"]["cpu"].startswith("cannot run")
    assert facts["threads"] >= 1
    assert facts["kernel_cache"]
    assert facts["self_check"] == "passed on reference"


def test_doctor_takes_a_demanded_backend_seriously() -> None:
    """Where there is no device: the facts are printed all the same, and the code is 4."""
    facts = json.loads(kvaudit("doctor", "--format", "json", CUDA_VISIBLE_DEVICES="").stdout)
    done = kvaudit("doctor", "--backend", "cuda", CUDA_VISIBLE_DEVICES="")
    assert facts["backends"]["cuda"].startswith("cannot run: ")
    assert done.returncode == ExitCode.BACKEND
    assert "cuda cannot run: " in done.stdout
    assert "hint: " in done.stderr


def test_doctor_names_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kvaudit.cli.doctor_cmd.PACKAGES", ("no-such-package",))
    assert run(["doctor", "--backend", "reference"]) == ExitCode.CLEAN
    assert "no-such-package  not installed" in capsys.readouterr().out


def test_doctor_names_the_folder_of_the_compiled_kernels(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = kvaudit(
        "doctor", "--backend", "reference", "--format", "json", NUMBA_CACHE_DIR=str(cache)
    )
    assert json.loads(done.stdout)["kernel_cache"] == str(cache)


def test_doctor_announces_the_first_compilation(tmp_path: Path) -> None:
    done = kvaudit("doctor", "--backend", "cpu", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == ExitCode.CLEAN
    assert done.stderr == f"kvaudit: {COMPILING}\n"


def test_doctor_has_an_answer_where_numba_cannot_be_imported() -> None:
    """It is what one runs then: every backend has its reason, and the reference still runs."""
    code = (
        "import sys\nsys.modules['numba'] = None\nfrom kvaudit.cli.entry import run\n"
        "sys.exit(run(['doctor', '--format', 'json', *sys.argv[1:]]))"
    )
    done = python("-c", code)
    facts = json.loads(done.stdout)
    assert done.returncode == ExitCode.CLEAN
    for name in ("cuda", "cpu"):
        assert facts["backends"][name].startswith("cannot run: numba cannot be imported")
    assert facts["kernel_cache"] is None
    assert facts["self_check"] == "passed on reference"
    demanded = python("-c", code, "--backend", "cpu")
    assert demanded.returncode == ExitCode.BACKEND
    assert "numba cannot be imported" in demanded.stderr


def test_the_self_test_lists_every_class_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["doctor", "--self-test", "--backend", "cpu", "--format", "json"]
    assert run(args) == ExitCode.CLEAN
    rows = json.loads(capsys.readouterr().out)["self_test"]
    assert [row["fault"] for row in rows] == [
        fault.name for fault in (*FAULT_CLASSES, *DIVERGENCE_CLASSES)
    ]
    assert {row["result"] for row in rows} == {"OK"}


def test_a_class_that_is_not_found_fails_the_self_test(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {rule: how for rule, how in registry.EXPLAINERS.items() if rule.id != "KV304"}
    monkeypatch.setattr(registry, "EXPLAINERS", kept)
    assert run(["doctor", "--self-test", "--backend", "cpu"]) == ExitCode.INTERNAL
    lines = [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line]
    assert [line.split()[1] for line in lines] == ["kv-bit-flip"]
