from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.runner.inject import FAULT_CLASSES
from tests.helpers.injecting import pool_for


def _dump(folder: Path, rule: str = "KV301") -> Path:
    pool = pool_for(rule, 4)
    folder.mkdir()
    write_snapshot(folder / "pool.snapshot.arrow", pool.snapshot)
    for sequences in pool.sequences:
        write_sequences(folder / "pool.sequences.arrow", sequences)
    for plan in pool.plans:
        write_plan(folder / "pool.plan.arrow", plan)
    return folder


@pytest.mark.parametrize("rule", ["KV101", "KV106", "KV203", "KV302", "KV304"])
def test_verify_names_the_rule_of_the_record_in_the_copy_and_the_input_stays(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, out = _dump(tmp_path / "dump", rule), tmp_path / "out"
    before = {path.name: path.read_bytes() for path in dump.iterdir()}
    args = ["inject", str(dump / "pool.snapshot.arrow"), "--fault", rule, "--seed", "7"]
    assert run([*args, "-o", str(out), "--format", "json"]) == ExitCode.CLEAN
    said = json.loads(capsys.readouterr().out)
    record = json.loads((out / "injection.json").read_text(encoding="utf-8"))
    assert record == {**said, "files": sorted(before, reverse=True)}
    assert {path.name: path.read_bytes() for path in dump.iterdir()} == before
    verify = ["verify", str(out), "--backend", "cpu", "--format", "json", "-q"]
    assert run(verify) == ExitCode.VIOLATIONS
    report = json.loads(capsys.readouterr().out)
    assert [found["rule"] for found in report["findings"]] == [record["rule"]]
    assert set(record["slots"]) <= set(report["findings"][0]["slots"])
    assert report["findings"][0]["request_ids"] == record["request_ids"]


def test_the_list_names_every_class_with_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inject", "--fault", "list"]) == ExitCode.CLEAN
    listed = capsys.readouterr().out
    for fault in FAULT_CLASSES:
        assert f"fault {fault.name} " in listed
        assert f"needs {fault.needs}" in listed


def test_a_class_that_the_dump_cannot_show_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["inject", str(_dump(tmp_path / "dump")), "--fault", "side-buffer-stale"]
    assert run([*args, "-o", str(tmp_path / "out")]) == ExitCode.USAGE
    assert "side-buffer-stale cannot be put into this dump: it needs" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_copy_never_replaces_its_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = _dump(tmp_path / "dump")
    args = ["inject", str(dump), "--fault", "late-writer", "-o", str(dump)]
    assert run(args) == ExitCode.USAGE
    assert "would replace" in capsys.readouterr().err


def test_without_a_dump_or_a_folder_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["inject", "--fault", "late-writer"]) == ExitCode.USAGE
    assert "hint: kvaudit inject FILE --fault CLASS -o DIR" in capsys.readouterr().err


def test_a_file_that_is_damaged_itself_is_never_made_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = _dump(tmp_path / "dump")
    path = dump / "pool.snapshot.arrow"
    content = bytearray(path.read_bytes())
    data = pool_for("KV301", 4).snapshot.kv["kv.v.1"].data
    content[content.index(data[20].tobytes())] ^= 1
    path.write_bytes(content)
    args = ["inject", str(dump), "--fault", "kv-bit-flip", "-o", str(tmp_path / "out")]
    assert run(args) == ExitCode.INPUT
    assert "column kv.v.1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
