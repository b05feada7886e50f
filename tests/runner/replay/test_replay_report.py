from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvaudit.constants import LaunchTag
from kvaudit.core.canary_state import CanaryState
from kvaudit.core.coverage import Family
from kvaudit.core.report import Verdict
from kvaudit.core.snapshot import DumpMoment, Snapshot
from kvaudit.errors import ConfigError
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot
from kvaudit.formats.state_writer import write_state
from tests.helpers.replays import findings, replayed


@pytest.fixture
def copy(short_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(short_run, tmp_path / "copy")
    return tmp_path / "copy"


def restated(folder: Path, **changes: object) -> None:
    """Another state at the end of the run."""
    path = folder / "full.state.arrow"
    state = read_file(path)
    assert isinstance(state, CanaryState)
    write_state(path, replace(state, **changes))


def test_coverage_counts_entries_records_stamps_and_positions(short_run: Path) -> None:
    report = replayed(short_run)
    records = report.coverage.families[Family.RECORDS]
    assert records.checked == records.due == records.planned
    assert sum(tag.checked for tag in report.tags) < records.checked
    assert report.coverage.families[Family.BYTES].checked > 500
    assert report.coverage.families[Family.INDEX].checked > 100
    assert report.coverage.slots_checked == report.coverage.slots_planned < 96
    assert {file.kind for file in report.inputs} == {"plan", "snapshot", "sequences", "state"}
    assert report.self_check == "passed"


def test_sweeps_are_tags_of_their_own(short_run: Path) -> None:
    tags = {tag.tag: tag for tag in replayed(short_run, environ={"SWEEP_INTERVAL": "5"}).tags}
    assert list(tags) == ["TAIL_K_FULL", "TAIL_V_FULL", "SWEEP_K_FULL", "SWEEP_V_FULL"]
    assert tags["SWEEP_K_FULL"].checked == tags["SWEEP_K_FULL"].slots_run > 0
    assert set(map(str, (tag.tag for tag in replayed(short_run).tags))) == {
        "TAIL_K_FULL",
        "TAIL_V_FULL",
    }


def test_a_counter_that_lacks_launches_leaves_the_replay_incomplete(copy: Path) -> None:
    restated(copy, kernel_run_counters={LaunchTag.TAIL_K_FULL: 39, LaunchTag.TAIL_V_FULL: 40})
    report = replayed(copy)
    assert report.exit_code == 5
    assert "the counter of TAIL_K_FULL has 39 launches" in findings(report)["KV003"]
    assert any("TAIL_K_FULL" in reason for reason in report.incomplete_reasons)
    # The state is that of the end.
    assert replayed(copy, until=20).exit_code == 0


def test_violations_of_the_engines_own_ring_are_violations_here(copy: Path) -> None:
    row = np.array([[int(LaunchTag.TAIL_K_FULL), 9, 5, 77, -1, 1, 1, 4]], dtype=np.int64)
    restated(copy, ring=row, violation_write_index=7, ring_capacity=1)
    report = replayed(copy)
    assert report.verdict is Verdict.VIOLATIONS
    assert report.violations_total == 7
    assert [row.slot for row in report.violations] == [9]
    assert "the ring holds 1 row and 7 violations" in findings(report)["KV005"]


def test_rules_can_be_chosen_and_an_unknown_one_is_refused(copy: Path) -> None:
    restated(copy, kernel_run_counters={LaunchTag.TAIL_K_FULL: 39})
    assert findings(replayed(copy, ignore=("KV003",))) == {}
    assert set(findings(replayed(copy, select=("KV0",)))) == {"KV003"}
    with pytest.raises(ConfigError, match="KV9"):
        replayed(copy, select=("KV9",))


def test_a_family_that_is_required_must_be_there(copy: Path) -> None:
    assert replayed(copy, require=frozenset({Family.BYTES})).exit_code == 0
    report = replayed(copy, require=frozenset({Family.BYTES}), skip_bytes=True)
    assert report.exit_code == 5
    assert "left out" in report.incomplete_reasons[0]


def test_rows_are_cut_and_counted(copy: Path) -> None:
    row = np.array([[int(LaunchTag.TAIL_K_FULL), 9, 5, 77, -1, 1, 1, 4]], dtype=np.int64)
    restated(copy, ring=np.repeat(row, 5, axis=0), violation_write_index=5, ring_capacity=5)
    report = replayed(copy, max_violations=2)
    assert (report.violations_total, len(report.violations)) == (5, 2)


def test_a_dump_in_mid_step_is_named_as_one_that_was_not_compared(copy: Path) -> None:
    path = copy / "step-000020" / "full.snapshot.arrow"
    snapshot = read_file(path)
    assert isinstance(snapshot, Snapshot)
    other = path.with_name("other.arrow")
    write_snapshot(other, replace(snapshot, at=DumpMoment.MID_STEP))
    other.replace(path)
    report = replayed(copy)
    assert report.exit_code == 0
    noted = {file.path: list(file.notes) for file in report.inputs if file.notes}
    assert noted == {str(path): ["not compared: it was taken in mid-step"]}
