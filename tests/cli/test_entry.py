"""Whatever happens, the process leaves with a documented code and says why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from kvaudit.cli import entry
from kvaudit.cli.exit_code import ExitCode
from tests.helpers import dumps
from tests.helpers.command_line import ROOT, environment, kvaudit, python

# Runs the command line with one thing broken first.
BROKEN = "import sys\n{damage}\nsys.argv = ['kvaudit', *{args}]\nfrom kvaudit.cli.entry import main\nmain()"


def broken(damage: str, *args: object) -> subprocess.CompletedProcess[str]:
    return python("-c", BROKEN.format(damage=damage, args=[str(arg) for arg in args]))


def test_a_crash_leaves_with_70_and_a_traceback(tmp_path: Path) -> None:
    done = broken(
        "import kvaudit.api\ndef crash(*a, **k): raise ZeroDivisionError('boom')\n"
        "kvaudit.api.open = crash",
        "verify",
        tmp_path,
    )
    assert done.returncode == ExitCode.INTERNAL
    assert done.stdout == ""
    assert "Traceback" in done.stderr
    assert "kvaudit: internal error: ZeroDivisionError: boom" in done.stderr
    assert "hint: the fault is kvaudit's" in done.stderr


@pytest.mark.parametrize("module", ["typer", "kvaudit.errors", "kvaudit.cli.app"])
def test_a_failing_import_leaves_with_70(module: str) -> None:
    done = broken(f"sys.modules[{module!r}] = None", "--help")
    assert done.returncode == ExitCode.INTERNAL
    assert "ModuleNotFoundError" in done.stderr or "ImportError" in done.stderr


@pytest.mark.parametrize("outcome", ["None", "1", "'clean'", "True"])
def test_only_a_returned_exit_code_is_believed(outcome: str) -> None:
    damage = f"import kvaudit.cli.app as app\napp.app = lambda **k: {outcome}"
    done = broken(damage, "doctor")
    assert done.returncode == ExitCode.INTERNAL
    assert "is no exit code" in done.stderr


def test_a_command_that_leaves_by_itself_is_not_believed() -> None:
    done = broken("import kvaudit.cli.app as app\napp.app = lambda **k: sys.exit(1)", "doctor")
    assert done.returncode == ExitCode.INTERNAL


def test_an_internal_error_keeps_its_traceback() -> None:
    damage = (
        "import kvaudit.cli.app as app\nfrom kvaudit.errors import SelfCheckFailed\n"
        "def fail(**k): raise SelfCheckFailed('missed')\napp.app = fail"
    )
    done = broken(damage, "doctor")
    assert done.returncode == ExitCode.INTERNAL
    assert "Traceback" in done.stderr
    assert "SelfCheckFailed: missed" in done.stderr


@pytest.mark.parametrize(
    "args",
    [["--help"], ["verify", "--help"], ["--version"], ["show", "-h"]],
    ids=" ".join,
)
def test_help_and_version_leave_with_0(args: list[str]) -> None:
    done = kvaudit(*args)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["verify"], "Missing argument 'FILES|DIR'"),
        (["verify", "x", "--bogus"], "No such option: --bogus"),
        (["verify", "x", "--backend", "tpu"], "'tpu' is not one of"),
        (["verify", "x", "--min-coverage", "101"], "--min-coverage"),
        (["verify", "x", "--min-coverage", "nan"], "--min-coverage"),
        (["verify", "x", "--max-violations", "-1"], "--max-violations"),
        (["verify", "x", "--require", "all"], "'all' is no family"),
        (["verify", "x", "--slot", "9-2"], "'9-2' runs backwards"),
        (["verify", "x", "--layer", "k"], "'k' is no layer"),
        (["stamp", "x"], "Missing option '--to'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_line_that_makes_no_sense_leaves_with_2(args: list[str], words: str) -> None:
    done = kvaudit(*args)
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert words in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_no_command_shows_the_help_on_stderr_and_leaves_with_2() -> None:
    done = kvaudit()
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert "Check:\n  verify  " in done.stderr


def into(stdout, *args: object, stderr=subprocess.PIPE, **changes: str):
    """Run a command line with streams of the test's own."""
    return subprocess.run(
        [sys.executable, "-m", "kvaudit", *map(str, args)],
        cwd=ROOT,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        timeout=300,
        check=False,
    )


@pytest.fixture
def closed_pipe() -> Iterator[BinaryIO]:
    """The writing end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stream:
        yield stream


# Buffered output meets the closed pipe at the end, unbuffered output inside the command.
@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["end", "middle"])
@pytest.mark.parametrize("args", [["--help"], ["doctor"]], ids=" ".join)
def test_a_closed_pipe_leaves_with_141_and_in_silence(
    closed_pipe: BinaryIO, args: list[str], buffering: dict[str, str]
) -> None:
    done = into(closed_pipe, *args, **buffering)
    assert (done.returncode, done.stderr) == (ExitCode.CLOSED_PIPE, b"")


@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["end", "middle"])
def test_a_report_that_nobody_reads_leaves_with_141_and_not_with_1(
    closed_pipe: BinaryIO, tmp_path: Path, buffering: dict[str, str]
) -> None:
    dumps.write(tmp_path, pool=dumps.flipped("kv.v.1", slot=3))
    done = into(closed_pipe, "verify", tmp_path, "--backend", "reference", **buffering)
    assert (done.returncode, done.stderr) == (ExitCode.CLOSED_PIPE, b"")


def test_a_closed_stderr_cannot_make_a_mistake_look_like_violations(closed_pipe: BinaryIO) -> None:
    done = into(subprocess.DEVNULL, "bogus", stderr=closed_pipe)
    assert done.returncode == ExitCode.CLOSED_PIPE


@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["end", "middle"])
@pytest.mark.parametrize("command", ["verify", "show", "stamp"])
def test_a_full_stdout_leaves_with_3_and_is_named(
    tmp_path: Path, command: str, buffering: dict[str, str]
) -> None:
    dumps.write(tmp_path)
    args = {
        "verify": ("verify", tmp_path, "--backend", "reference"),
        "show": ("show", tmp_path / "target.snapshot.arrow"),
        "stamp": ("stamp", tmp_path, "--to", tmp_path / "to", "--backend", "reference", "-q"),
    }[command]
    with Path("/dev/full").open("wb") as full:
        done = into(full, *args, **buffering)
    assert done.returncode == ExitCode.INPUT
    assert done.stderr.startswith(b"kvaudit: error: stdout: no space left on device\n  hint: ")


def test_help_that_finds_no_room_leaves_with_3() -> None:
    with Path("/dev/full").open("wb") as full:
        done = into(full, "--help")
    assert done.returncode == ExitCode.INPUT
    assert done.stderr.startswith(b"kvaudit: error: stdout: no space left on device\n")


def test_a_full_stderr_changes_no_code() -> None:
    with Path("/dev/full").open("wb") as full:
        done = into(subprocess.PIPE, "show", "no-such-file", stderr=full)
    assert (done.returncode, done.stdout) == (ExitCode.INPUT, b"")


def without(*closed: str, args: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a shell that closes streams first."""
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m kvaudit {args} {" ".join(closed)}', sys.executable],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


CLOSED = [("2>&-",), (">&-",), (">&-", "2>&-"), ("<&-", ">&-", "2>&-")]


@pytest.mark.parametrize("closed", CLOSED, ids=" ".join)
def test_streams_that_are_closed_from_the_start_change_no_code(
    tmp_path: Path, closed: tuple[str, ...]
) -> None:
    dumps.write(tmp_path, pool=dumps.flipped("kv.v.1", slot=3))
    done = without(*closed, args=f"verify '{tmp_path}' --backend reference")
    assert done.returncode == ExitCode.VIOLATIONS
    assert done.stderr == ""
    assert done.stdout.startswith("VIOLATIONS") == (">&-" not in closed)
    assert without(*closed, args="show no-such-file").returncode == ExitCode.INPUT
    assert without(*closed, args="--help").returncode == ExitCode.CLEAN


def test_a_file_never_gets_the_descriptor_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library writes to descriptor 1 or 2 must not end up in a report."""
    dumps.write(tmp_path)
    code = BROKEN.format(
        damage="import os, pathlib, kvaudit.formats.atomic_file as atomic\nsync = os.fsync\n"
        "def noisy(fd): os.write(1, b'noise'); os.write(2, b'noise'); sync(fd)\n"
        "atomic.os.fsync = noisy",
        args=["verify", str(tmp_path), "--backend=reference", f"--output=json={tmp_path}/report"],
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, code],
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert done.returncode == ExitCode.CLEAN
    assert json.loads((tmp_path / "report").read_text())["verdict"] == "clean"


def test_ctrl_c_leaves_with_130(tmp_path: Path) -> None:
    started = tmp_path / "started"
    code = BROKEN.format(
        damage="import signal, time, pathlib, kvaudit.api\n"
        # A shell that starts this run in the background leaves SIGINT ignored, for children too.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"def wait(*a, **k): pathlib.Path({str(started)!r}).touch(); time.sleep(60)\n"
        "kvaudit.api.open = wait",
        args=["verify", str(tmp_path)],
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert (stdout, stderr) == ("", "kvaudit: interrupted\n")


def test_run_returns_the_code_without_leaving(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["--version"]) == ExitCode.CLEAN
    assert capsys.readouterr().out.startswith("kvaudit ")


def test_what_an_error_quotes_cannot_command_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert entry.run(["show", "no\x1b[2Jsuch"]) == ExitCode.INPUT
    assert "\x1b" not in capsys.readouterr().err


def test_the_console_script_and_the_module_are_one_program() -> None:
    script = Path(sys.executable).with_name("kvaudit")
    done = subprocess.run(
        [script, "--version"], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, kvaudit("--version").stdout)
