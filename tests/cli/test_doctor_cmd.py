from __future__ import annotations

import json

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from tests.helpers.command_line import kvaudit


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
