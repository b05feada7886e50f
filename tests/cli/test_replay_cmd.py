from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.constants import LaunchTag
from tests.helpers.command_line import kvaudit, python
from tests.helpers.replays import record_toy, rewrite_trace
from tests.runner.replay.test_run import overwriting, without


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    record_toy(folder, num_steps=120, digests_every=50)
    return folder


def document(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_a_clean_run_leaves_with_0_and_its_statistics_are_on_stderr(recorded: Path) -> None:
    done = kvaudit("replay", recorded)
    assert done.returncode == ExitCode.CLEAN, done.stderr
    assert done.stdout.startswith("CLEAN  index 100% · records 100% · bytes 100%")
    lines = [line for line in done.stderr.splitlines() if line.startswith("[canary] step=")]
    assert len(lines) == 1
    assert lines[0].startswith("[canary] step=100 protected_tokens=")


def test_quiet_is_the_verdict_alone(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(recorded), "--quiet"]) == ExitCode.CLEAN
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert "[canary]" not in captured.err


def test_the_canarys_own_variables_configure_it(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVAUDIT_CANARY_STATS_PRINT_EVERY_N_STEPS", "0")
    monkeypatch.setenv("KVAUDIT_CANARY_SWEEP_INTERVAL", "10")
    assert run(["replay", str(recorded), "--format", "json"]) == ExitCode.CLEAN
    captured = capsys.readouterr()
    assert "[canary]" not in captured.err
    tags = [tag["tag"] for tag in json.loads(captured.out)["tags"]]
    assert "SWEEP_K_FULL" in tags
    monkeypatch.setenv("KVAUDIT_CANARY_SWEEP_INTERVAL", "often")
    assert run(["replay", str(recorded)]) == ExitCode.USAGE
    assert "KVAUDIT_CANARY_SWEEP_INTERVAL" in capsys.readouterr().err


def test_it_begins_and_ends_where_it_is_told_to(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shots = [str(recorded / f"step-{step:06d}" / "full.snapshot.arrow") for step in (50, 100)]
    between = ["--from", shots[0], "--against", shots[1]]
    assert run(["replay", str(recorded), *between, "--format", "json"]) == ExitCode.CLEAN
    assert document(capsys)["tags"][0]["kernel_runs"] == 2 * 50
    assert run(["replay", str(recorded), "--until", "7", "--format", "json"]) == ExitCode.CLEAN
    assert document(capsys)["tags"][0]["kernel_runs"] == 2 * 7


def test_an_overwritten_slot_leaves_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    record_toy(folder, num_steps=130, digests_every=50, on_step=overwriting(120))
    report = tmp_path / "report.json"
    args = ["replay", str(folder), "--output", f"json={report}"]
    assert run(args) == ExitCode.VIOLATIONS
    text = capsys.readouterr().out
    assert "KV404 replay-divergence: the first difference is of steps 101 to 130: slot" in text
    assert "column_digest" in text
    assert json.loads(report.read_text())["findings"][0]["evidence"]["first_step"] == 101
    assert run([*args, "--exit-zero"]) == ExitCode.CLEAN
    capsys.readouterr()
    assert run(["replay", str(folder), "--skip-bytes", "-q"]) == ExitCode.CLEAN


def test_launches_that_were_left_out_leave_with_5(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(recorded, folder)
    rewrite_trace(folder, without(LaunchTag.TAIL_K_FULL, since=1))
    assert run(["replay", str(folder)]) == ExitCode.INCOMPLETE
    assert "KV003 kernel-stalled: launches of TAIL_K_FULL did not run" in capsys.readouterr().out


def test_no_output_replaces_an_input(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = recorded / "full.plan.arrow"
    assert run(["replay", str(recorded), "--output", f"json={trace}"]) == ExitCode.USAGE
    assert "is an input" in capsys.readouterr().err


def test_what_is_no_trace_leaves_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(tmp_path)]) == ExitCode.INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hint" in captured.err


def test_without_torch_it_leaves_with_4_and_names_the_extra(recorded: Path) -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom kvaudit.cli.entry import run\n"
        f"sys.exit(run(['replay', {str(recorded)!r}]))"
    )
    done = python("-c", code)
    assert done.returncode == ExitCode.BACKEND
    assert "kvaudit[torch]" in done.stderr
    assert "Traceback" not in done.stderr
