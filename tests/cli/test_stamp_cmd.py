from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from tests.helpers import dumps
from tests.helpers.command_line import kvaudit


@pytest.fixture
def unstamped(tmp_path: Path) -> Path:
    pool = replace(dumps.snapshot(), canary={}, stamped={}, stamped_columns=())
    dumps.write(tmp_path / "unstamped", pool=pool)
    return tmp_path / "unstamped"


def test_a_stamped_copy_is_covered_and_clean_and_the_input_is_left_alone(
    unstamped: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in unstamped.iterdir()}
    to = tmp_path / "stamped"
    done = kvaudit("stamp", unstamped, "--to", to, "--backend", "reference")
    assert done.returncode == ExitCode.CLEAN
    assert sorted(done.stdout.splitlines()) == sorted(
        str(to / path.name) for path in unstamped.iterdir()
    )
    assert "stamped as it is now" in done.stderr
    assert {path: path.read_bytes() for path in unstamped.iterdir()} == before
    checked = kvaudit("verify", to, "--backend", "reference", "--require", "bytes")
    assert checked.stdout.startswith("CLEAN  index 100% · records 100% · bytes 100%")


def test_the_help_says_what_a_stamp_certifies(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stamp", "--help"]) == ExitCode.CLEAN
    assert "certifies what is there NOW" in capsys.readouterr().out


def test_a_stamp_never_replaces_its_input(
    unstamped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["stamp", str(unstamped), "--to", str(unstamped), "--backend", "reference", "-q"]
    assert run(args) == ExitCode.USAGE
    assert "would replace" in capsys.readouterr().err


def test_a_snapshot_without_sequences_cannot_be_stamped(
    unstamped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (unstamped / "target.sequences.arrow").unlink()
    args = ["stamp", str(unstamped), "--to", str(tmp_path / "to"), "--backend", "reference", "-q"]
    assert run(args) == ExitCode.INPUT
    assert "hint: " in capsys.readouterr().err


def test_a_combined_column_is_covered_by_the_records(
    unstamped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "stamped"
    args = ["stamp", str(unstamped), "--to", str(to), "--combined", "kv.k.0", "-q"]
    assert run([*args, "--backend", "reference"]) == ExitCode.CLEAN
    capsys.readouterr()
    assert run(["show", str(to / "target.snapshot.arrow")]) == ExitCode.CLEAN
    shown = capsys.readouterr().out
    assert "stamped_columns    kv.k.0\n" in shown
    assert "real_kv_hash_mode  all\n" in shown
