from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvaudit.constants import FailReason
from kvaudit.core.report import InputFile
from kvaudit.core.severity import Severity
from kvaudit.core.snapshot import PoolKey
from kvaudit.render.blame_step import blame_step
from tests.helpers import dumps
from tests.helpers.reports import CLEAN, VIOLATIONS
from tests.helpers.slot_reports import FLIP, ROW
from tests.helpers.verify_command import verify

SNAPSHOT = InputFile(path="a dump/t.snapshot.arrow", kind="snapshot", key={"step": 120})
REPORT = replace(VIOLATIONS, inputs=(SNAPSHOT,), findings=(FLIP,), violations=(ROW,))


def test_the_first_slot_of_the_first_error_is_asked_for() -> None:
    assert blame_step(REPORT) == "kvaudit blame 'a dump/t.snapshot.arrow' 4103"
    note = replace(FLIP, severity=Severity.NOTE, slots=(1,))
    other = replace(FLIP, slots=(7, 8))
    assert blame_step(replace(REPORT, findings=(note, other, FLIP))).endswith(" 7")


def test_options_that_were_given_are_given_again() -> None:
    assert blame_step(REPORT, carried=("--expect", "x y.plan.arrow")) == (
        "kvaudit blame 'a dump/t.snapshot.arrow' 4103 --expect 'x y.plan.arrow'"
    )


def test_a_row_without_a_finding_is_asked_for_unless_it_is_outside_the_pool() -> None:
    outside = replace(ROW, slot=9999, reasons=FailReason.SLOT_OUT_OF_RANGE)
    wild = replace(FLIP, rule="KV102", slots=(9999,))
    report = replace(REPORT, findings=(wild,), violations=(outside, replace(ROW, slot=5)))
    assert blame_step(report).endswith(" 5")
    assert blame_step(replace(report, violations=(outside,))) == ""


def test_the_pool_of_the_finding_is_the_file_that_is_named() -> None:
    second = PoolKey(pool_kind="SWA", rank=1, step=120)
    files = (
        SNAPSHOT,
        InputFile(
            path="swa.snapshot.arrow",
            kind="snapshot",
            key={"pool_kind": "SWA", "rank": 1, "step": 120},
        ),
        InputFile(path="swa.plan.arrow", kind="plan", key={"pool_kind": "SWA", "rank": 1}),
    )
    report = replace(REPORT, inputs=files, findings=(replace(FLIP, key=second),))
    assert blame_step(report) == "kvaudit blame swa.snapshot.arrow 4103"
    nowhere = replace(FLIP, key=PoolKey(rank=9))
    assert blame_step(replace(report, findings=(nowhere,), violations=())) == ""


def test_a_clean_report_asks_for_nothing() -> None:
    assert blame_step(CLEAN) == ""


def test_verify_ends_with_a_command_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "dump"
    dumps.write(folder, pool=dumps.flipped("kv.v.1", slot=3))
    _, out, _ = verify(capsys, folder)
    step = f"kvaudit blame {folder / 'target.snapshot.arrow'} 3"
    assert f"\n\nnext\n  {step}\n\nbackend " in out
    _, quiet, _ = verify(capsys, folder, "-q")
    assert "blame" not in quiet
