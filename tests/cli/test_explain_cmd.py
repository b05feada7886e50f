from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from tests.helpers.engine_logs import OTHER_LINES, T02

DAMAGED = Path(__file__).parents[2] / "examples" / "smollm2-damaged"


@pytest.mark.parametrize("subject", ["KV101", "kv101", "slot-alias"])
def test_a_rule_is_explained_by_id_and_by_name(
    subject: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", subject]) == ExitCode.CLEAN
    assert capsys.readouterr().out.startswith("KV101 slot-alias (error)\n")


def test_a_rule_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "KV208", "--format", "json"]) == ExitCode.CLEAN
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["rule"]) == ("kvaudit.rule/1", "KV208")
    assert document["causes"]


def test_an_unknown_rule_is_a_usage_error_that_lists_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explain", "KV999"]) == ExitCode.USAGE
    assert "KV101" in capsys.readouterr().err


def test_a_log_is_explained_from_a_file_and_from_stdin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "engine.log"
    path.write_text(T02 + OTHER_LINES, encoding="utf-8")
    assert run(["explain", str(path)]) == ExitCode.CLEAN
    text = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(path.read_bytes())))
    assert run(["explain", "-"]) == ExitCode.CLEAN
    assert capsys.readouterr().out == text
    assert text.startswith("1 row printed: 1 root\n\nnot checked\n")


def test_a_log_as_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "engine.log"
    path.write_text(T02, encoding="utf-8")
    assert run(["explain", str(path), "--format", "json"]) == ExitCode.CLEAN
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kvaudit.log/1"
    assert document["causes"][0]["roots"][0]["slot"] == 4


def test_a_saved_report_is_shown_again_with_its_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    assert run(["verify", str(DAMAGED), "-q", "--output", f"json={path}"]) == ExitCode.VIOLATIONS
    capsys.readouterr()
    assert run(["explain", str(path)]) == ExitCode.CLEAN
    assert "KV304 kv-bit-flip" in capsys.readouterr().out
    assert run(["explain", str(path), "--format", "json"]) == ExitCode.CLEAN
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert finding["explained"]["name"] == "kv-bit-flip"


@pytest.mark.parametrize("content", [b"", b"words", b"{}", b'{"schema": "kvaudit.report/1"}'])
def test_what_cannot_be_explained_is_an_input_error(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert run(["explain", str(path)]) == ExitCode.INPUT
    assert "hint: " in capsys.readouterr().err
    assert run(["explain", str(tmp_path / "none")]) == ExitCode.INPUT


def test_to_explain_imports_nothing_slow() -> None:
    code = (
        "import sys; from kvaudit.cli.entry import run; "
        "sys.stdin = type('S', (), {'buffer': open(0, 'rb')})(); code = run(['explain', '-']); "
        "print(code, sorted({'torch', 'numba', 'pyarrow'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=T02.encode(), capture_output=True, check=False
    )
    assert done.stderr.decode().strip() == "0 []"
