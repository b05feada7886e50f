from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvaudit import api
from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.errors import ProofFailed
from tests.helpers import bench_pools
from tests.helpers.command_line import kvaudit

SMALL = ["bench", "--backend", "cpu", "--bytes-per-token", "64", "--repeats", "1", "--sizes", "1k"]


def test_the_document_on_stdout_is_the_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--format", "json"]) == ExitCode.CLEAN
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kvaudit.bench/1"
    assert [(row["op"], row["real_kv"]) for row in document["rows"]] == [
        ("fold", "all"),
        ("verify", "none"),
        ("verify", "all"),
        ("write", "none"),
        ("write", "all"),
        ("plan", None),
    ]
    assert all(row["proof"]["reference_entries"] == 1024 for row in document["rows"])


def test_the_command_of_a_run_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    def ran(args: list[str]) -> dict:
        assert run([*args, "--format", "json", "-q"]) == ExitCode.CLEAN
        return json.loads(capsys.readouterr().out)

    first = ran([*SMALL, "--op", "plan", "--page-size", "4", "--seed", "3"])
    again = ran(first["command"].split()[1:])
    assert again["command"] == first["command"]
    assert again["settings"] == first["settings"]


def test_files_and_dumps_are_measured_as_users_run_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, document = tmp_path / "bench.html", tmp_path / "bench.json"
    outputs = ["--output", f"html={page}", "--output", f"json={document}"]
    assert run([*SMALL, "--op", "file,dump", *outputs]) == ExitCode.CLEAN
    captured = capsys.readouterr()
    assert captured.out.startswith("bench cpu (CPU, ")
    assert "of " in captured.out
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert [row["op"] for row in json.loads(document.read_text())["rows"]] == ["file", "dump"]


def test_quiet_prints_the_table_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--op", "plan", "-q"]) == ExitCode.CLEAN
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["op", "plan"]
    assert captured.err == ""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--sizes", "64q"),
        ("--sizes", "1"),
        ("--op", "sort"),
        ("--real-kv", "some"),
        ("--bytes-per-token", "40"),
        ("--page-size", "0"),
        ("--request-tokens", "7"),
        ("--output", "pdf=x"),
        ("--output", "junit=x"),
    ],
)
def test_a_bad_value_is_a_usage_error_that_names_its_option(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "--op", "plan", option, value]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert option in captured.err
    assert "hint: " in captured.err


def test_sizes_that_do_not_fit_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "--sizes", "1g", "--bytes-per-token", "1048576"]) == ExitCode.USAGE
    assert "--sizes 1g" in capsys.readouterr().err


def test_a_demanded_device_that_is_not_there_is_a_backend_error() -> None:
    done = kvaudit("bench", "--backend", "cuda", "--sizes", "1k", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == ExitCode.BACKEND
    assert done.stdout == ""


def test_a_failed_proof_is_internal_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise ProofFailed("fold --real-kv all of 64k entries differs from the reference")

    monkeypatch.setattr(api, "bench", fail)
    assert run(["bench"]) == ExitCode.INTERNAL
    assert "ProofFailed: fold --real-kv all of 64k entries" in capsys.readouterr().err


def test_variables_stand_for_the_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def bench(options: object, **_kwargs: object) -> object:
        asked.append(options)
        return bench_pools.report()

    monkeypatch.setattr(api, "bench", bench)
    for name, value in {"SIZES": "2k", "OP": "plan", "REAL_KV": "partial", "SEED": "9"}.items():
        monkeypatch.setenv(f"KVAUDIT_{name}", value)
    assert run(["bench"]) == ExitCode.CLEAN
    [options] = asked
    assert (options.sizes, options.ops, options.real_kv, options.seed) == (
        (2048,),
        ("plan",),
        ("partial",),
        9,
    )
    assert capsys.readouterr().out
