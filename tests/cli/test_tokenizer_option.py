"""`--tokenizer`: text shows the words of tokens, and nothing that is passed on does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kvaudit.cli.exit_code import ExitCode
from kvaudit.formats.table_writer import write_table
from tests.helpers import dumps
from tests.helpers.layer0_tables import layer0_table
from tests.helpers.verify_command import verify

WORDS = {"\u0120the": 12, "\u0120Paris": 99, "<unk>": 0}


@pytest.fixture
def wrong_token(tmp_path: Path) -> Path:
    """Slot 3 was stamped for token 12, and its request has token 99 there."""
    folder = tmp_path / "dump"
    dumps.write(folder, owners=dumps.sequences(tokens=(11, 99, 13, 14)))
    return folder


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    model = {"type": "WordLevel", "vocab": WORDS, "unk_token": "<unk>"}
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    path.write_text(json.dumps({"version": "1.0", "decoder": decoder, "model": model}))
    return path


def test_text_shows_the_words_of_tokens(
    wrong_token: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = verify(capsys, wrong_token, "--tokenizer", tokenizer)
    assert code == ExitCode.VIOLATIONS
    assert "stored 12 ' the'  expected 99 ' Paris'" in out
    _, plain, _ = verify(capsys, wrong_token)
    assert "stored 12  expected 99" in plain
    assert "Paris" not in plain


def test_no_word_stands_in_a_document_for_machines(
    wrong_token: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--tokenizer", tokenizer, "--output", f"json={tmp_path / 'report.json'}")
    _, out, _ = verify(capsys, wrong_token, *asked, "--format", "json")
    for document in (out, (tmp_path / "report.json").read_text()):
        assert json.loads(document)["violations"]["total"]
        assert "Paris" not in document


def test_a_report_never_replaces_what_its_pool_was_judged_by(
    wrong_token: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "a.table.arrow"
    write_table(table, layer0_table())
    for option, path in (("--tokenizer", tokenizer), ("--layer0", table)):
        before = path.read_bytes()
        code, _, err = verify(capsys, wrong_token, option, path, "--output", f"json={path}")
        assert code == ExitCode.USAGE
        assert "is an input" in err
        assert path.read_bytes() == before


def test_a_file_that_is_no_tokenizer_is_refused_before_the_audit(
    wrong_token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = wrong_token / "target.snapshot.arrow"
    for path in (snapshot, wrong_token / "none.json"):
        code, out, err = verify(capsys, wrong_token, "--tokenizer", path)
        assert code == ExitCode.INPUT
        assert out == ""
        assert str(path) in err


def test_without_the_library_it_is_a_backend_that_cannot_run(
    wrong_token: Path,
    tokenizer: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    code, _, err = verify(capsys, wrong_token, "--tokenizer", tokenizer)
    assert code == ExitCode.BACKEND
    assert "pip install 'kvaudit[tokenizer]'" in err
