"""Files are mapped, remote ones read, and what is neither is refused."""

from __future__ import annotations

import os

import pytest

from kvaudit.errors import FileUnreadable, LimitExceeded, NotArrow
from kvaudit.formats import file_bytes
from kvaudit.formats.file_bytes import is_remote, open_file
from kvaudit.formats.reader import read_file
from kvaudit.formats.snapshot_writer import write_snapshot
from tests.helpers.arrow_files import snapshot


def test_a_local_file_is_mapped(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    found = open_file(str(path))
    assert found.buffer.to_pybytes() == b"content"
    assert not found.buffer.is_mutable
    assert found.mapping is not None
    found.ensure_whole()


def test_a_file_that_grew_is_still_whole_and_one_that_shrank_is_not(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    found = open_file(str(path))
    path.write_bytes(b"content and more")
    found.ensure_whole()
    os.truncate(path, 3)
    with pytest.raises(FileUnreadable, match="shrank from 7 to 3"):
        found.ensure_whole()


def test_a_file_replaced_by_renaming_stays_as_it_was_opened(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"content")
    found = open_file(str(path))
    (tmp_path / "b").write_bytes(b"x")
    (tmp_path / "b").replace(path)
    found.ensure_whole()
    assert found.buffer.to_pybytes() == b"content"


@pytest.mark.parametrize("name", ["missing", "folder", "pipe", "loop", "nul\0"])
def test_what_is_no_readable_file_is_refused(tmp_path, name):
    path = str(tmp_path / name)
    if name == "folder":
        (tmp_path / name).mkdir()
    elif name == "pipe":
        os.mkfifo(path)
    elif name == "loop":
        (tmp_path / name).symlink_to(path)
    with pytest.raises(FileUnreadable) as caught:
        open_file(path)
    assert caught.value.path == path


def test_a_file_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"content")

    def denied(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_bytes.Path, "open", denied)
    with pytest.raises(FileUnreadable, match="permission denied") as caught:
        open_file(str(path))
    assert caught.value.hint


def test_an_empty_file_is_not_arrow(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(NotArrow, match="empty"):
        open_file(str(tmp_path / "a"))


def test_a_file_past_the_limit_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"content")
    monkeypatch.setattr(file_bytes, "MAX_FILE_BYTES", 6)
    with pytest.raises(LimitExceeded, match="7 bytes"):
        open_file(str(tmp_path / "a"))


def test_a_uri_is_read_whole_and_keeps_its_address(tmp_path):
    path = tmp_path / "a.arrow"
    write_snapshot(path, snapshot(9))
    uri = path.as_uri()
    assert is_remote(uri)
    assert not is_remote(str(path))
    found = read_file(uri)
    assert found.path == uri
    assert found.kv["kv.k.0"].source.mapping is None
    for window in found.kv["kv.k.0"].windows():
        window.check()


@pytest.mark.parametrize("uri", ["file:///missing/a.arrow", "nonsense://a/b", "file://", "://"])
def test_a_uri_that_leads_nowhere_is_refused(uri):
    with pytest.raises(FileUnreadable) as caught:
        open_file(uri)
    assert caught.value.path == uri


def test_a_remote_file_past_the_limit_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"content")
    monkeypatch.setattr(file_bytes, "MAX_REMOTE_BYTES", 6)
    with pytest.raises(LimitExceeded):
        open_file((tmp_path / "a").as_uri())
