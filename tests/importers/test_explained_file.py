from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.core.log_report import LogReport
from kvaudit.core.saved_report import SavedReport
from kvaudit.errors import FileUnreadable, SchemaMismatch
from kvaudit.importers import explained_file
from kvaudit.importers.explained_file import explain_path, explain_stream
from tests.helpers.engine_logs import OTHER_LINES, T02
from tests.importers.test_saved_report import REPORT


def _explained(text: bytes) -> SavedReport | LogReport:
    return explain_stream(io.BytesIO(text), path="x")


def test_a_report_is_told_from_a_log_by_its_schema_wherever_it_stands() -> None:
    for sort_keys in (False, True):
        text = json.dumps(REPORT, indent=2, sort_keys=sort_keys)
        assert isinstance(_explained(text.encode()), SavedReport)
    assert isinstance(_explained(T02.encode()), LogReport)


def test_a_log_of_json_lines_is_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(json.dumps({"level": "WARNING", "message": T02}) + "\n" for _ in range(50))
    for limit in (1 << 26, 100):
        monkeypatch.setattr(explained_file, "MAX_REPORT_BYTES", limit)
        report = _explained(lines.encode())
        assert isinstance(report, LogReport)
        assert report.num_rows == 50


def test_a_canary_that_found_nothing_is_a_log_too() -> None:
    report = _explained(OTHER_LINES.encode())
    assert isinstance(report, LogReport)
    assert report.num_rows == 0


@pytest.mark.parametrize(
    "text", [b"", b"words\n", b"{}", b'{"schema": "mine/1"}', b"[" * 100_000, b"ARROW1\0\0"]
)
def test_what_is_neither_is_refused_and_the_hint_says_what_is_read(text: bytes) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        _explained(text)
    assert "explain takes" in caught.value.hint or "kvaudit show" in caught.value.hint


@given(st.binary(max_size=400))
def test_no_bytes_are_a_crash(text: bytes) -> None:
    for each in (text, b"{" + text, b"kv_canary violation: " + text):
        with suppress(SchemaMismatch):
            _explained(each)


def test_a_missing_file_and_a_folder_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(FileUnreadable) as caught:
            explain_path(str(path))
        assert caught.value.path == str(path)


def test_a_file_is_read_as_a_stream_is(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text(T02, encoding="utf-8")
    assert explain_path(str(tmp_path / "engine.log")) == _explained(T02.encode())
