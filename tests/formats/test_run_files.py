"""Which files a replay reads."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kvaudit.core.snapshot import PoolKey, Snapshot
from kvaudit.errors import FileUnreadable, InputError, SchemaMismatch, SnapshotInconsistent
from kvaudit.formats.reader import read_file
from kvaudit.formats.run_files import open_run
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.replays import record_toy


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    record_toy(folder, num_steps=9, digests_every=3, num_before=2)
    return folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    shutil.copytree(recorded, tmp_path / "run")
    return tmp_path / "run"


def shot(folder: Path, step: int) -> Path:
    return folder / f"step-{step:06d}" / "full.snapshot.arrow"


def rekeyed(path: Path, key: PoolKey) -> None:
    snapshot = read_file(path)
    assert isinstance(snapshot, Snapshot)
    copy = path.with_name("copy.arrow")
    write_snapshot(copy, replace(snapshot, key=key))
    copy.replace(path)


def test_a_folder_is_its_trace_with_the_snapshots_by_step_and_the_state(folder: Path) -> None:
    for path in (folder, folder / "full.plan.arrow"):
        run = open_run(path)
        assert run.trace.extent.last_step == 11
        assert run.start_step == 2
        assert [moment.step for moment in run.later] == [3, 6, 9, 11]
        assert run.last_step is None
        assert run.state is not None
        assert [Path(file.path).name for file in run.files] == [
            "full.plan.arrow",
            "full.snapshot.arrow",
            "full.sequences.arrow",
            *["full.snapshot.arrow"] * 4,
            "full.state.arrow",
        ]


def test_a_replay_may_begin_and_end_elsewhere(folder: Path) -> None:
    run = open_run(folder, start=shot(folder, 3), against=shot(folder, 9))
    assert run.start_step == 3
    assert [moment.step for moment in run.later] == [6, 9]
    assert run.last_step == 9
    # The counters are those of the run's end.
    assert run.state is None
    cut = open_run(folder, until=7)
    assert [moment.step for moment in cut.later] == [3, 6]
    assert cut.last_step == 7


def test_a_snapshot_elsewhere_takes_the_place_of_that_of_its_step(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "step-000009", tmp_path / "elsewhere")
    other = tmp_path / "elsewhere" / "full.snapshot.arrow"
    run = open_run(folder, against=other)
    assert [moment.file.path for moment in run.later][-1] == str(other)
    assert [moment.step for moment in run.later] == [3, 6, 9]


def test_files_of_other_pools_and_damaged_strangers_are_passed_over(folder: Path) -> None:
    rekeyed(shot(folder, 6), PoolKey(group="draft", step=6))
    (folder / "notes.arrow").write_bytes(b"no arrow")
    assert [moment.step for moment in open_run(folder).later] == [3, 9, 11]


def test_a_damaged_snapshot_of_the_run_is_an_error(folder: Path) -> None:
    shot(folder, 6).write_bytes(b"no arrow")
    with pytest.raises(InputError) as caught:
        open_run(folder)
    assert caught.value.path == str(shot(folder, 6))


def test_a_folder_without_a_trace_or_with_several_is_refused(folder: Path) -> None:
    shutil.copy(folder / "full.plan.arrow", folder / "other.plan.arrow")
    with pytest.raises(SchemaMismatch, match="2 traces") as caught:
        open_run(folder)
    assert "other.plan.arrow" in caught.value.hint
    with pytest.raises(FileUnreadable, match=r"no \.plan\.arrow file"):
        open_run(folder / "step-000003")


def test_a_trace_alone_has_nothing_to_begin_with(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone" / "full.plan.arrow"
    alone.parent.mkdir()
    shutil.copy(folder / "full.plan.arrow", alone)
    with pytest.raises(FileUnreadable, match="no snapshot") as caught:
        open_run(alone)
    assert "--from" in caught.value.hint
    assert open_run(alone, start=shot(folder, 2)).start_step == 2


def test_what_is_given_as_a_snapshot_must_be_one_of_the_pool_with_a_step(folder: Path) -> None:
    with pytest.raises(SchemaMismatch, match="sequences file"):
        open_run(folder, start=folder / "step-000003" / "full.sequences.arrow")
    rekeyed(shot(folder, 3), PoolKey())
    with pytest.raises(SchemaMismatch, match="its step"):
        open_run(folder, start=shot(folder, 3))
    rekeyed(shot(folder, 3), PoolKey(pool="other", step=3))
    with pytest.raises(SnapshotInconsistent, match="pool other"):
        open_run(folder, against=shot(folder, 3))


def test_two_snapshots_of_one_step_are_refused(folder: Path) -> None:
    shutil.copy(shot(folder, 6), folder / "full.snapshot.arrow")
    with pytest.raises(SnapshotInconsistent, match="pairing key of"):
        open_run(folder)


def test_another_kind_of_file_is_no_trace(folder: Path) -> None:
    with pytest.raises(SchemaMismatch, match="not a plan"):
        open_run(shot(folder, 3))


def test_a_snapshot_without_digests_of_its_chunks_is_noted(folder: Path) -> None:
    table = pa.ipc.open_file(pa.OSFile(str(shot(folder, 6)))).read_all()
    metadata = {
        key: value for key, value in table.schema.metadata.items() if key != b"kvaudit.digests"
    }
    with pa.OSFile(str(shot(folder, 6)), "wb") as sink:
        schema = table.schema.with_metadata(metadata)
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(table.cast(schema))
    notes = {moment.step: list(moment.file.notes) for moment in open_run(folder).later}
    assert notes == {3: [], 6: ["file not checksummed"], 9: [], 11: []}
