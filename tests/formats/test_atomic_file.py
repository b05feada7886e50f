"""A file appears complete or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from kvaudit.errors import FileUnwritable
from kvaudit.formats.atomic_file import atomic_file, make_folder, unwritable_as_input_error


def test_the_file_appears_when_the_block_ends_with_mode_0600(tmp_path):
    path = tmp_path / "a"
    with atomic_file(path) as file:
        file.write(b"content")
        assert not path.exists()
    assert path.read_bytes() == b"content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_an_older_file_is_replaced_and_its_readers_keep_the_old_one(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        with atomic_file(path) as file:
            file.write(b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


def test_an_exception_leaves_nothing_behind_and_passes_through(tmp_path):
    class Stop(BaseException):
        pass

    def stopped():
        with atomic_file(tmp_path / "a") as file:
            file.write(b"half")
            raise Stop

    with pytest.raises(Stop):
        stopped()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named_in_the_error(tmp_path):
    path = tmp_path / "missing" / "a"
    with pytest.raises(FileUnwritable) as caught, atomic_file(path):
        pass
    assert caught.value.path == str(path)
    assert caught.value.hint


@pytest.mark.parametrize("path", ["", "/"])
def test_a_path_without_a_name_is_refused(path):
    with pytest.raises(FileUnwritable, match="directory"), atomic_file(path):
        pass


def test_a_pipe_or_a_device_stays_what_it_is(tmp_path):
    path = tmp_path / "a"
    os.mkfifo(path)
    with pytest.raises(FileUnwritable, match="not a regular file"), atomic_file(path) as file:
        file.write(b"content")
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_is_a_folder_is_refused_and_nothing_is_left(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(FileUnwritable), atomic_file(tmp_path / "a") as file:
        file.write(b"content")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileUnwritable, match="no space left"), atomic_file(tmp_path / "a") as file:
        file.write(b"content")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_with_those_above_it_and_may_be_there(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_whose_name_a_file_has_is_an_error(tmp_path):
    (tmp_path / "a").write_text("content")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(FileUnwritable) as caught:
            make_folder(path)
        assert caught.value.path == str(path)


def test_what_the_system_refuses_names_the_file():
    with pytest.raises(FileUnwritable) as caught, unwritable_as_input_error("a.arrow"):
        raise OSError(28, "No space left on device")
    assert (caught.value.path, caught.value.message) == ("a.arrow", "no space left on device")
    assert caught.value.hint
