from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from examples.capture_smollm2 import GGUF_FILE, weights_folder
from kvaudit.cli.entry import run
from kvaudit.cli.exit_code import ExitCode
from kvaudit.core.layer0_table import TableSource
from kvaudit.formats.reader import read_file
from tests.helpers.command_line import ROOT, kvaudit
from tests.helpers.model_families import CASES, NUM_TOKENS, save_model

CLEAN_DUMP = ROOT / "examples" / "smollm2-clean"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_model(CASES["qwen2"], tmp_path / "model", dtype=torch.bfloat16)
    return tmp_path / "model"


def test_a_model_gives_a_table_of_all_of_its_tokens(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.table.arrow"
    assert run(["learn", "--model", str(model), "-o", str(path)]) == ExitCode.CLEAN
    said = capsys.readouterr()
    assert said.out == f"{path}\n"
    assert f"tokens: {NUM_TOKENS}, from 0 to {NUM_TOKENS - 1}" in said.err
    assert "K and V of layer 0, its rotation known" in said.err
    table = read_file(path)
    assert (table.source, table.dtype) == (TableSource.MODEL, "bfloat16")
    assert run(["show", str(path), "--format", "json"]) == ExitCode.CLEAN
    assert json.loads(capsys.readouterr().out)["source"] == "model"


def test_the_type_and_the_length_of_the_engine_are_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(CASES["dynamic"], tmp_path / "model", dtype=torch.float32)
    path = tmp_path / "a.table.arrow"
    args = ["learn", "--model", str(tmp_path / "model"), "-o", str(path), "-q"]
    assert run(args) == ExitCode.CLEAN
    assert read_file(path).rope is None
    assert "positions are not judged by this table" in capsys.readouterr().err
    assert run([*args, "--dtype", "bfloat16", "--max-length", "300"]) == ExitCode.CLEAN
    assert (read_file(path).dtype, read_file(path).rope is None) == ("bfloat16", False)
    assert run([*args, "--max-length", "9", "--rope-layout", "interleaved"]) == ExitCode.CLEAN
    assert read_file(path).rope.layout == "interleaved"
    assert not capsys.readouterr().err


def test_a_dump_gives_a_table_of_the_tokens_that_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.table.arrow"
    args = ["learn", str(CLEAN_DUMP), "-o", str(path), "--backend", "cpu", "-q"]
    assert run(args) == ExitCode.CLEAN
    assert capsys.readouterr().out == f"{path}\n"
    table = read_file(path)
    held = read_file(CLEAN_DUMP / "full.sequences.arrow").tokens
    assert table.source is TableSource.LEARNT
    assert np.isin(table.tokens, held).all()
    assert table.num_tokens > 50
    assert (table.rows_agreeing <= table.rows_seen).all()


def test_the_table_of_the_weights_judges_every_slot_of_a_real_dump(tmp_path: Path) -> None:
    path = tmp_path / "a.table.arrow"
    weights = Path(weights_folder()) / GGUF_FILE
    assert kvaudit("learn", "--model", weights, "-o", path).returncode == ExitCode.CLEAN
    done = kvaudit("verify", CLEAN_DUMP, "--layer0", path, "--require", "identity", "-q")
    assert done.returncode == ExitCode.CLEAN, done.stdout + done.stderr
    assert "identity 100%" in done.stdout.splitlines()[0]


def test_a_model_that_is_not_applicable_is_refused_with_the_reason(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    path = tmp_path / "a.table.arrow"
    assert run(["learn", "--model", str(model), "-o", str(path)]) == ExitCode.INPUT
    said = capsys.readouterr().err
    assert "not applicable" in said
    assert "learned absolute positions" in said
    assert not path.exists()


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["dump", "--model", "m"],
        ["dump", "--dtype", "float32"],
        ["dump", "--max-length", "9"],
        ["dump", "--rope-layout", "half"],
    ],
    ids=str,
)
def test_dumps_and_a_model_are_one_of_two(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["learn", *args]) == ExitCode.USAGE
    assert "--model" in capsys.readouterr().err


def test_a_table_never_replaces_a_dump(capsys: pytest.CaptureFixture[str]) -> None:
    path = CLEAN_DUMP / "full.snapshot.arrow"
    before = path.stat()
    assert run(["learn", str(CLEAN_DUMP), "-o", str(path), "-q"]) == ExitCode.USAGE
    assert "is an input" in capsys.readouterr().err
    assert path.stat() == before


def test_a_table_never_replaces_a_file_of_its_model(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "model.safetensors"):
        before = (model / name).read_bytes()
        asked = ["learn", "--model", str(model), "-o", str(model / name), "-q"]
        assert run(asked) == ExitCode.USAGE
        assert "is an input" in capsys.readouterr().err
        assert (model / name).read_bytes() == before


@pytest.mark.parametrize("path", ["", ".", "missing/a.table.arrow"])
def test_a_table_that_cannot_be_written_is_refused_before_anything_is_read(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["learn", "no/such/dump", "-o", path, "-q"]) == ExitCode.INPUT
    said = capsys.readouterr()
    assert not said.out
    assert "hint" in said.err
    assert "dump:" not in said.err
