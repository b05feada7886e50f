"""Which files a run opens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import FileUnreadable, NotArrow, SchemaMismatch
from kvaudit.formats.file_search import find_files
from kvaudit.formats.plan_writer import write_plan
from kvaudit.formats.sequences_writer import write_sequences
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.arrow_files import plan, sequences, snapshot


def opened(*paths, companions=True):
    return [found.file.path for found in find_files([str(p) for p in paths], companions=companions)]


def test_a_missing_path_and_an_empty_folder_are_refused(tmp_path):
    for path in (tmp_path / "missing.arrow", tmp_path):
        with pytest.raises(FileUnreadable) as caught:
            opened(path)
        assert caught.value.path == str(path)


def test_paths_stay_as_the_user_wrote_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    write_snapshot("d/a.snapshot.arrow", snapshot())
    write_sequences("d/a.sequences.arrow", sequences())
    assert opened("d") == ["d/a.sequences.arrow", "d/a.snapshot.arrow"]
    assert opened("d/a.snapshot.arrow") == ["d/a.snapshot.arrow", "d/a.sequences.arrow"]
    monkeypatch.chdir(tmp_path / "d")
    assert opened("a.snapshot.arrow") == ["a.snapshot.arrow", "a.sequences.arrow"]


def test_other_files_of_a_folder_are_not_opened(tmp_path):
    write_snapshot(tmp_path / "a.snapshot.arrow", snapshot())
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".a.snapshot.arrow.123.tmp").write_text("x")
    assert opened(tmp_path) == [str(tmp_path / "a.snapshot.arrow")]


def test_no_companions_are_looked_for_when_they_are_not_wanted(tmp_path):
    write_snapshot(tmp_path / "a.snapshot.arrow", snapshot())
    write_sequences(tmp_path / "a.sequences.arrow", sequences())
    wanted = [str(tmp_path / "a.snapshot.arrow")]
    assert opened(tmp_path / "a.snapshot.arrow", companions=False) == wanted
    assert opened(tmp_path, companions=False) == wanted


def test_a_damaged_neighbour_counts_only_if_its_name_is_the_snapshots(tmp_path):
    path = tmp_path / "a.snapshot.arrow"
    write_snapshot(path, snapshot())
    (tmp_path / "b.sequences.arrow").write_bytes(b"damaged")
    assert opened(path) == [str(path)]
    (tmp_path / "a.sequences.arrow").write_bytes(b"damaged")
    with pytest.raises(NotArrow) as caught:
        opened(path)
    assert caught.value.path == str(tmp_path / "a.sequences.arrow")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../b.arrow",
        "x/../../b.arrow",
        "s3://b/c",
        "..\\b",
        '["ok.arrow", ".."]',
        "[1]",
    ],
)
def test_a_companion_outside_the_folder_is_refused(tmp_path, name):
    path = tmp_path / "a.snapshot.arrow"
    write_snapshot(path, snapshot(metadata={"plan": name}))
    with pytest.raises(SchemaMismatch) as caught:
        opened(path)
    assert caught.value.path == str(path)


def test_a_named_companion_that_is_missing_or_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "a.snapshot.arrow"
    write_snapshot(path, snapshot(metadata={"plan": "b.arrow"}))
    with pytest.raises(FileUnreadable) as caught:
        opened(path)
    assert caught.value.path == str(tmp_path / "b.arrow")
    write_sequences(tmp_path / "b.arrow", sequences())
    with pytest.raises(SchemaMismatch, match="sequences"):
        opened(path)
    write_plan(tmp_path / "b.arrow", plan())
    assert opened(path) == [str(path), str(tmp_path / "b.arrow")]


def test_a_missing_companion_says_who_names_it(tmp_path):
    path = tmp_path / "a.snapshot.arrow"
    write_snapshot(path, snapshot(metadata={"sequences": "b.arrow"}))
    with pytest.raises(FileUnreadable) as caught:
        opened(path)
    assert caught.value.path == str(tmp_path / "b.arrow")
    assert f"{path} names it in kvaudit.sequences" in str(caught.value)
    assert "--expect" in caught.value.hint


def test_an_empty_path_is_refused():
    with pytest.raises(FileUnreadable, match="a path is empty"):
        opened("")


def test_companions_of_a_remote_snapshot_are_found_beside_it(tmp_path):
    path = tmp_path / "a.snapshot.arrow"
    write_snapshot(path, snapshot(metadata={"sequences": "s.arrow"}))
    write_sequences(tmp_path / "s.arrow", sequences())
    uri = path.as_uri()
    assert opened(uri) == [uri, (tmp_path / "s.arrow").as_uri()]


def test_a_file_that_cannot_be_opened_is_left_out_beside_one_that_can(tmp_path):
    write_snapshot(tmp_path / "a.snapshot.arrow", snapshot())
    missing = str(tmp_path / "b.snapshot.arrow")
    files = find_files([str(tmp_path), missing, missing], companions=True)
    assert [found.file.path for found in files] == [str(tmp_path / "a.snapshot.arrow")]
    (left_out,) = files.left_out
    assert (left_out.path, left_out.kind) == (missing, "snapshot")
    assert isinstance(left_out.error, FileUnreadable)


def test_a_snapshot_with_a_bad_companion_is_left_out_beside_a_good_one(tmp_path):
    for letter, rank in (("a", 0), ("b", 1)):
        metadata = {"plan": "none.arrow"} if letter == "a" else {}
        made = snapshot(key=PoolKey(rank=rank), metadata=metadata)
        write_snapshot(tmp_path / f"{letter}.snapshot.arrow", made)
    files = find_files([str(tmp_path)], companions=True)
    assert [found.file.path for found in files] == [str(tmp_path / "b.snapshot.arrow")]
    assert [file.path for file in files.left_out] == [str(tmp_path / "a.snapshot.arrow")]


def test_a_file_in_a_folder_that_may_not_be_entered_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.snapshot.arrow"

    def denied(self, **_options):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", denied)
    with pytest.raises(FileUnreadable, match="permission denied") as caught:
        opened(path)
    assert (caught.value.path, bool(caught.value.hint)) == (str(path), True)


def test_the_folder_that_may_not_be_listed_is_named(tmp_path, monkeypatch):
    inner = tmp_path / "inner"
    inner.mkdir()
    write_snapshot(tmp_path / "a.snapshot.arrow", snapshot())
    scan = os.scandir

    def scan_but_inner(path):
        if str(path) == str(inner):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_but_inner)
    with pytest.raises(FileUnreadable, match="permission denied") as caught:
        opened(tmp_path)
    assert (caught.value.path, bool(caught.value.hint)) == (str(inner), True)
