"""The example to paste runs, and what it dumps verifies."""

from __future__ import annotations

from pathlib import Path

from examples.your_engine import ToyEngine
from kvaudit.cli.exit_code import ExitCode
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from tests.helpers.auditing import assert_all_covered, audited, bad_slots
from tests.helpers.command_line import kvaudit, python

SCRIPT = Path(__file__).parents[2] / "examples" / "your_engine.py"


def test_the_example_runs_and_its_dump_is_clean(tmp_path: Path) -> None:
    run = python(SCRIPT, tmp_path / "dumps")
    assert run.returncode == 0, run.stderr
    report = audited(tmp_path / "dumps")
    assert report.verdict is Verdict.CLEAN
    assert_all_covered(report, Family.INDEX)


def test_a_page_given_to_two_requests_is_found(tmp_path: Path) -> None:
    engine = ToyEngine()
    engine.prefill("first", [11, 12, 13, 14, 15, 16])
    engine.free_pages.append(engine.page_tables["first"][0])
    engine.prefill("second", [21, 22, 23])
    engine.dump(str(tmp_path / "full"))
    report = audited(tmp_path)
    assert report.verdict is Verdict.VIOLATIONS
    (alias,) = report.findings
    assert (alias.rule, list(alias.request_ids)) == ("KV101", ["first", "second"])
    first_page = engine.page_tables["first"][0] * 4
    assert list(alias.slots) == [first_page, first_page + 1, first_page + 2]
    assert not bad_slots(report)


def test_a_page_outside_the_pool_is_dumped_and_found(tmp_path: Path) -> None:
    """The wild write is the bug to see: the dump must not be what stops the engine."""
    engine = ToyEngine()
    engine.prefill("first", [11, 12, 13, 14, 15, 16])
    engine.prefill("second", [21, 22, 23])
    engine.page_tables["first"][1] = 99
    engine.dump(str(tmp_path / "full"))
    run = kvaudit("verify", tmp_path, "--backend", "cpu")
    assert run.returncode == ExitCode.VIOLATIONS, run.stderr
    assert "KV102 slot-out-of-range" in run.stdout
    assert "slot 396 of first at position 4 is outside the pool of 128 slots" in run.stdout

    assert kvaudit("stamp", tmp_path, "--to", tmp_path / "stamped").returncode == ExitCode.CLEAN
    run = kvaudit("verify", tmp_path / "stamped", "--backend", "cpu")
    assert run.returncode == ExitCode.VIOLATIONS, run.stderr
    assert "  slot 396 (outside the pool)  request first  position 4\n" in run.stdout
    assert "    TAIL_K_FULL  slot_out_of_range\n" in run.stdout


def test_the_call_to_paste_is_ten_lines() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    body = text.split("        dump(\n")[1].split("        )\n")[0]
    assert len(body.splitlines()) <= 10
