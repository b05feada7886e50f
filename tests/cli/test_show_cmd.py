from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.formats.state_writer import write_state
from tests.helpers import dumps
from tests.helpers.arrow_files import canary_state, recorded_steps, write_trace


@pytest.fixture
def dump(tmp_path: Path) -> tuple[str, str]:
    snapshot, sequences = dumps.write(tmp_path)
    return str(snapshot), str(sequences)


def test_show_describes_a_snapshot(
    dump: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", dump[0], "--format", "json"]) == ExitCode.CLEAN
    facts = json.loads(capsys.readouterr().out)
    assert (facts["file"], facts["kind"], facts["page_size"]) == (dump[0], "snapshot", 2)
    assert facts["records"] == {"k.tail": "4 of 16 stamped"}
    assert facts["kv"] == {"kv.k.0-1 kv.v.0-1": "(uint8, 16 B a slot)"}
    assert facts["checksummed"] is True
    assert "slot_rows" not in facts


def test_show_prints_the_records_of_slots(
    dump: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", dump[0], "--slot", "2-3"]) == ExitCode.CLEAN
    rows = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    assert [row.split("  ")[:5] for row in rows] == [
        ["slot 2", "page 1 +0", "record k.tail", "token 11", "position 0"],
        ["slot 3", "page 1 +1", "record k.tail", "token 12", "position 1"],
    ]
    assert "prev_hash 0x89cd2abfbebc0649" in rows[1]


def test_show_prints_the_owners_of_slots(
    dump: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", dump[1], "--slot", "5"]) == ExitCode.CLEAN
    text = capsys.readouterr().out
    assert "sequences  A positions 0-3, 4 tokens, 4 slots" in text
    assert text.endswith("slot 5  request A  position 3  token 14  written yes\n")


def test_show_prints_the_ring_and_the_counters_of_a_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a.state.arrow")
    write_state(path, canary_state())
    assert run(["show", path]) == ExitCode.CLEAN
    facts, _, ring = capsys.readouterr().out.partition("\n\n")
    assert "TAIL_K_FULL 300 launches, 4,800 slots, 1 violation in the ring" in facts
    assert [row.split("  ")[:2] for row in ring.splitlines()] == [
        ["slot 5", "tag TAIL_K_FULL"],
        ["slot 7", "tag SWEEP_K_SWA"],
    ]
    assert run(["show", path, "--slot", "7", "--format", "json"]) == ExitCode.CLEAN
    narrowed = json.loads(capsys.readouterr().out)
    assert [row["reasons"] for row in narrowed["slot_rows"]] == [["write_token", "write_position"]]
    assert "ring" not in narrowed


def test_show_sums_up_a_trace_and_prints_the_writes_of_slots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_trace(tmp_path / "a.plan.arrow", recorded_steps())
    assert run(["show", path, "--slot", "7"]) == ExitCode.CLEAN
    facts, _, rows = capsys.readouterr().out.partition("\n\n")
    assert ["steps", "4-9"] in [line.split(maxsplit=1) for line in facts.splitlines()]
    assert [row.split("  ")[:3] for row in rows.splitlines()] == [
        ["slot 7", "step 4", "request a"],
        ["slot 7", "step 5", "request -"],
    ]


def test_show_refuses_a_trace_whose_later_rows_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_trace(tmp_path / "a.plan.arrow", reversed(recorded_steps()))
    assert run(["show", path]) == ExitCode.INPUT
    assert "column step, row 1" in capsys.readouterr().err


def test_show_refuses_what_is_no_file_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    assert run(["show", str(other)]) == ExitCode.INPUT
    assert "notes.txt" in capsys.readouterr().err
    assert run(["show", str(tmp_path / "missing")]) == ExitCode.INPUT
