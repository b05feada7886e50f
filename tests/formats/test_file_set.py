"""The files of a run, each once."""

from __future__ import annotations

import pytest

from kvaudit.core.snapshot import PoolKey
from kvaudit.errors import FileUnreadable, LimitExceeded, NotArrow
from kvaudit.formats import file_set
from kvaudit.formats.file_search import find_files
from kvaudit.formats.file_set import FileSet
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.arrow_files import snapshot


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(file_set, "MAX_FILES", 2)
    for rank in range(3):
        write_snapshot(tmp_path / f"{rank}.arrow", snapshot(key=PoolKey(rank=rank)))
    with pytest.raises(LimitExceeded):
        find_files([str(tmp_path)], companions=True)


def test_a_file_is_one_under_any_name_and_demanded_if_it_ever_was(tmp_path, monkeypatch):
    path = tmp_path / "a.snapshot.arrow"
    write_snapshot(path, snapshot())
    monkeypatch.chdir(tmp_path)
    files = FileSet()
    files.add(files.opened(str(path)), demanded=False)
    found = files.open("a.snapshot.arrow", demanded=True)
    assert list(files) == [found] == files.snapshots()
    assert found.demanded
    assert files.has("./a.snapshot.arrow")


def test_what_cannot_be_opened_is_kept_once_with_the_kind_its_name_tells(tmp_path):
    path = str(tmp_path / "a.plan.arrow")
    files = FileSet()
    assert files.opened(path) is None
    assert files.opened(path) is None
    assert [(file.path, file.kind, type(file.error)) for file in files.left_out] == [
        (path, "plan", FileUnreadable)
    ]


def test_what_is_left_out_is_refused_with_the_same_error_each_time(tmp_path):
    path = str(tmp_path / "a.plan.arrow")
    files = FileSet()
    files.opened(path)
    with pytest.raises(FileUnreadable) as caught:
        files.open(path, demanded=True)
    assert files.is_left_out(path)
    assert caught.value is files.left_out[0].error


def test_what_is_not_needed_is_passed_over_where_it_cannot_be_opened(tmp_path):
    files = FileSet()
    assert files.opened(str(tmp_path / "a.plan.arrow"), needed=False) is None
    assert files.left_out == []


def test_a_file_that_was_opened_can_be_left_out_with_its_owners(tmp_path):
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot())
    files = FileSet()
    found = files.open(str(path), demanded=True)
    found.owners.add("x")
    files.leave_out(found, NotArrow("broken", path=str(path)))
    assert list(files) == []
    (left_out,) = files.left_out
    assert (left_out.kind, left_out.owners) == ("snapshot", {"x"})
