"""Invalid input: every one leaves with 3, says where, and nothing of it is a violation."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kvaudit.cli.exit_code import ExitCode
from kvaudit.core.plan import PlanDump, PlannedLaunch, VerifyPlan
from kvaudit.core.snapshot import PoolKey
from kvaudit.formats.plan_writer import write_plan
from tests.helpers import dumps
from tests.helpers.command_line import kvaudit
from tests.helpers.verify_command import ON_REFERENCE, verify


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table], **options: object) -> None:
    """Write a file again with its table changed and without digests."""
    with pa.ipc.open_file(path) as reader:
        table = reader.read_all()
    table = change(table)
    metadata = {
        key: value for key, value in table.schema.metadata.items() if key != b"kvaudit.digests"
    }
    table = table.replace_schema_metadata(metadata)
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)


def replaced(name: str, values: Sequence[object]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        column = table.schema.get_field_index(name)
        field = table.schema.field(name)
        return table.set_column(
            column, pa.field(name, field.type), pa.array(values, type=field.type)
        )

    return change


def missing_file(folder: Path) -> Path:
    return folder / "none.arrow"


def truncated_file(folder: Path) -> Path:
    path = folder / "target.snapshot.arrow"
    os.truncate(path, path.stat().st_size // 2)
    return path


def bit_flipped_file(folder: Path) -> Path:
    path = folder / "target.snapshot.arrow"
    data = bytearray(path.read_bytes())
    place = data.rindex(np.arange(16, dtype=np.uint8).tobytes() * 16)
    data[place + 40] ^= 1
    path.write_bytes(data)
    return path


def text_file(folder: Path) -> Path:
    path = folder / "target.snapshot.arrow"
    path.write_text("not arrow")
    return path


def column_of_the_wrong_type(folder: Path) -> Path:
    path = folder / "target.snapshot.arrow"

    def change(table: pa.Table) -> pa.Table:
        return table.set_column(0, "slot", table["slot"].cast(pa.float64()))

    rewritten(path, change)
    return path


def null_in_a_column(folder: Path) -> Path:
    path = folder / "target.snapshot.arrow"
    rewritten(path, replaced("slot", [0, 1, None, *range(3, 16)]))
    return path


def compressed_file(folder: Path) -> Path:
    path = folder / "target.snapshot.arrow"
    rewritten(path, lambda table: table, compression="zstd")
    return path


def slots_that_do_not_ascend(folder: Path) -> Path:
    path = folder / "target.snapshot.arrow"
    rewritten(path, replaced("slot", [0, 1, 2, 2, *range(4, 16)]))
    return path


def two_files_of_one_key(folder: Path) -> Path:
    shutil.copy(folder / "target.snapshot.arrow", folder / "again.snapshot.arrow")
    return folder


INVALID = {
    missing_file: ["none.arrow"],
    truncated_file: ["target.snapshot.arrow"],
    bit_flipped_file: ["target.snapshot.arrow", "column kv."],
    text_file: ["target.snapshot.arrow", "Arrow"],
    column_of_the_wrong_type: ["target.snapshot.arrow", "column slot"],
    null_in_a_column: ["target.snapshot.arrow", "column slot", "row 2"],
    compressed_file: ["target.snapshot.arrow", "compressed"],
    slots_that_do_not_ascend: ["target.snapshot.arrow", "column slot", "row 3"],
    two_files_of_one_key: ["target.snapshot.arrow", "again.snapshot.arrow", "pairing key"],
}


@pytest.mark.parametrize("damage", INVALID, ids=lambda damage: damage.__name__)
def test_an_invalid_file_leaves_with_3_and_says_where(
    clean: Path, damage: Callable[[Path], Path]
) -> None:
    path = damage(clean)
    done = kvaudit("verify", path, *ON_REFERENCE)
    assert done.returncode == ExitCode.INPUT
    assert done.stdout == ""
    for word in INVALID[damage]:
        assert word in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def two_ranks(tmp_path: Path) -> Path:
    """Two clean pools, a folder a rank."""
    for rank in range(2):
        key = PoolKey(rank=rank)
        dumps.write(
            tmp_path / f"r{rank}",
            pool=dumps.snapshot(key=key),
            owners=replace(dumps.sequences(), key=key),
        )
    return tmp_path


@pytest.mark.parametrize("damage", [truncated_file, bit_flipped_file], ids=lambda it: it.__name__)
def test_a_pool_that_cannot_be_read_is_named_and_the_others_are_audited(
    two_ranks: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], Path]
) -> None:
    broken = damage(two_ranks / "r1")
    code, out, err = verify(capsys, two_ranks, "--format", "json")
    document = json.loads(out)
    assert code == document["exit_code"] == ExitCode.INPUT
    assert document["verdict"] == "incomplete"
    assert document["coverage"]["records"]["ratio"] == 1.0
    [file] = [file for file in document["inputs"] if file["path"] == str(broken)]
    assert any(note.startswith("not audited: ") for note in file["notes"])
    assert any(str(broken) in reason for reason in document["incomplete_reasons"])
    assert err.startswith(f"kvaudit: error: {broken}")
    assert "\n  hint: " in err
    code, out, _ = verify(capsys, two_ranks)
    assert code == ExitCode.INPUT
    assert out.startswith("INCOMPLETE  index 100% · records 100%")
    assert out.count(str(broken)) == 1


def test_violations_win_over_a_pool_that_cannot_be_read(
    two_ranks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = PoolKey(rank=0)
    dumps.write(
        two_ranks / "r0",
        pool=replace(dumps.flipped("kv.v.1", slot=3), key=key),
        owners=replace(dumps.sequences(), key=key),
    )
    broken = truncated_file(two_ranks / "r1")
    code, out, err = verify(capsys, two_ranks)
    assert code == ExitCode.VIOLATIONS
    assert out.startswith("VIOLATIONS")
    assert f"not audited: {broken}" in out
    assert err.startswith(f"kvaudit: error: {broken}")


def test_exit_zero_hides_no_pool_that_cannot_be_read(
    two_ranks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = truncated_file(two_ranks / "r1")
    _, out, err = verify(capsys, two_ranks, "--exit-zero")
    assert out.startswith("INCOMPLETE")
    assert str(broken) in err


def test_no_pool_left_is_an_input_error_without_a_report(
    two_ranks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        truncated_file(two_ranks / f"r{rank}")
    code, out, _ = verify(capsys, two_ranks)
    assert (code, out) == (ExitCode.INPUT, "")


def test_a_folder_without_a_snapshot_leaves_with_3(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clean / "target.snapshot.arrow").unlink()
    code, _, err = verify(capsys, clean)
    assert code == ExitCode.INPUT
    assert "snapshot" in err


def test_a_file_without_digests_is_read_and_said_to_be(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewritten(clean / "target.snapshot.arrow", lambda table: table)
    code, out, _ = verify(capsys, clean)
    assert code == ExitCode.CLEAN
    assert "target.snapshot.arrow: file not checksummed" in out


def test_slots_outside_the_pool_are_violations_and_not_input_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps.write(tmp_path, owners=dumps.sequences(slots=(2, 3, 4, 400)))
    code, out, _ = verify(capsys, tmp_path)
    assert code == ExitCode.VIOLATIONS
    assert "slot 400 (outside the pool)" in out
    assert "slot_out_of_range" in out
    assert "KV102 slot-out-of-range" in out


def test_a_negative_number_of_entries_checks_nothing_and_says_so(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = VerifyPlan(
        verify_slot_indices=np.array(dumps.SLOTS, dtype=np.int64),
        verify_expected_tokens=np.array(dumps.TOKENS, dtype=np.int64),
        verify_expected_positions=np.arange(4, dtype=np.int64),
        verify_prev_slot_indices=np.array([-1, 2, 3, 4], dtype=np.int64),
        num_valid=-3,
    )
    launch = PlannedLaunch(step=1, tags=None, plan=entries, check_verify_expected_token=True)
    plan = clean / "target.plan.arrow"
    write_plan(plan, PlanDump(launches=(launch,)))
    code, out, _ = verify(capsys, clean / "target.snapshot.arrow", "--expect", plan)
    assert code == ExitCode.INCOMPLETE
    assert out.startswith("INCOMPLETE")
