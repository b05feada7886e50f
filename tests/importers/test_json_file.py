"""A small JSON file, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvaudit.errors import FileUnreadable, LimitExceeded, SchemaMismatch
from kvaudit.importers import json_file
from kvaudit.importers.json_file import read_json


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_file_without_an_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(SchemaMismatch):
        read_json(tmp_path / "config.json")


def test_a_file_that_is_missing_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileUnreadable):
        read_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("{} ")
    monkeypatch.setattr(json_file, "MAX_JSON_BYTES", 2)
    with pytest.raises(LimitExceeded):
        read_json(tmp_path / "config.json")
