from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.core.snapshot import PoolKey
from tests.helpers import dumps
from tests.helpers.command_line import ROOT, python

EXAMPLE = "examples/smollm2-damaged"


def test_the_damaged_example_is_told_on_one_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["blame", EXAMPLE, "tale@9", "-q"]) == ExitCode.CLEAN
    text = capsys.readouterr().out
    assert text.startswith(
        "slot 873 (page 54 +9)  2 rows failed · KV304 kv-bit-flip · read by tale@9"
    )
    assert "byte 208  holds 85 3d 47 3d c1 bf e4 be  was 85 3f 47 3d c1 bf e4 be  1 bit" in text
    assert text.endswith("next\n  kvaudit explain KV304\n")
    assert len(text.splitlines()) < 50


def test_json_is_one_document_of_its_own_schema(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = damaged / "target.snapshot.arrow"
    assert run(["blame", str(snapshot), "3", "--format", "json"]) == ExitCode.CLEAN
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["slot"]) == ("kvaudit.blame/1", 3)
    assert [file["kind"] for file in document["inputs"]] == ["snapshot", "sequences"]
    assert [row["columns"] for row in document["violations"]] == [["kv.v.1"]]


def test_the_calls_that_come_next_are_to_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a dump"
    snapshot, sequences = dumps.write(folder, pool=dumps.flipped("kv.v.1", slot=3))
    elsewhere = sequences.rename(tmp_path / "own.sequences.arrow")
    args = ["blame", str(snapshot), "A@0", "--expect", str(elsewhere)]
    assert run([*args, "--backend", "reference"]) == ExitCode.CLEAN
    *_, last = capsys.readouterr().out.splitlines()
    assert last == f"  kvaudit blame '{snapshot}' --expect {elsewhere} 3"


@pytest.mark.parametrize("target", ["C@1", "A@9", "16", "A", "2,3"])
def test_what_cannot_be_meant_is_a_usage_error_with_a_hint(
    target: str, clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["blame", str(clean), target]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "\n  hint: " in captured.err


def test_of_several_pools_the_file_chooses_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1):
        dumps.write(tmp_path / f"r{rank}", pool=dumps.snapshot(key=PoolKey(rank=rank)))
        (tmp_path / f"r{rank}" / "target.sequences.arrow").unlink()
    assert run(["blame", str(tmp_path), "3"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"name one of the snapshots: {tmp_path / 'r0' / 'target.snapshot.arrow'}" in said
    assert run(["blame", str(tmp_path / "r1"), "3", "--format", "json"]) == ExitCode.CLEAN
    assert json.loads(capsys.readouterr().out)["rank"] == 1


def test_a_file_whose_bytes_changed_is_never_told_of(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = clean / "target.snapshot.arrow"
    content = bytearray(path.read_bytes())
    content[content.index(bytes(range(16)))] ^= 1
    path.write_bytes(content)
    for options in ([], ["--skip-bytes"]):
        assert run(["blame", str(clean), "3", *options]) == ExitCode.INPUT
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "column kv.k.0" in captured.err


def test_a_missing_file_is_an_input_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blame", "missing.snapshot.arrow", "3"]) == ExitCode.INPUT
    assert "missing.snapshot.arrow" in capsys.readouterr().err


def test_words_stand_in_text_and_in_no_document_for_machines(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    model = {"type": "WordLevel", "vocab": {"<unk>": 0, "\u0120the": 12}, "unk_token": "<unk>"}
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    tokenizer.write_text(json.dumps({"version": "1.0", "decoder": decoder, "model": model}))
    args = ["blame", str(clean), "3", "--tokenizer", str(tokenizer)]
    assert run(args) == ExitCode.CLEAN
    assert "token 12 ' the'" in capsys.readouterr().out
    assert run([*args, "--format", "json"]) == ExitCode.CLEAN
    assert "the'" not in capsys.readouterr().out


def test_torch_is_never_imported() -> None:
    done = python(
        "-c",
        "import sys; from kvaudit.cli.entry import run; "
        f"code = run(['blame', {EXAMPLE!r}, '873', '-q']); "
        "sys.exit(9 if 'torch' in sys.modules else code)",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_table_of_layer_0_that_cannot_be_used_is_an_input_error(
    clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sequences = clean / "target.sequences.arrow"
    assert run(["blame", str(clean), "3", "--layer0", str(sequences)]) == ExitCode.INPUT
    assert str(sequences) in capsys.readouterr().err
    assert run(["blame", str(clean), "3", "--layer0", "off"]) == ExitCode.CLEAN
